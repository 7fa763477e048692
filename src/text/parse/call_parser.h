// The calls in an answer's text, taken apart from the text: parts leave as soon as they are certain. One byte at a
// time, so what comes out, joined, does not depend on how the text was cut; linear in the text. What begins like a call
// and is none, or of a tool that is not there, is text. White space around calls is dropped. One thread at a time.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/parse/answer_parts.h"
#include "text/parse/bare_calls.h"
#include "text/parse/call_form.h"
#include "text/parse/call_item.h"
#include "text/stop_strings.h"

namespace quire {

class CallParser {
 public:
  // `rules` null: everything is text. `document`: the answer is calls from its first byte on that is no white space, or
  // a document, in which no mark counts.
  explicit CallParser(std::shared_ptr<const CallRules> rules, bool document = false);

  void push(std::string_view text, AnswerParts& out);
  // Something stands here that is none of the text, and in no string of a call: no mark goes on behind it, and where
  // calls are messages, no call.
  void end_piece(AnswerParts& out);
  // No text follows. A call that was not certain yet is text.
  void finish(AnswerParts& out);
  // Nothing more will come out.
  bool over() const { return at_ == At::over; }
  int n_calls() const { return n_calls_; }  // told so far
  bool in_string() const { return at_ == At::item && item_->in_string(); }
  // Of what came, the last bytes that may be of a call or of the white space before it. REQUIRES that none was told, or
  // that text came since.
  size_t open_bytes() const { return spaces_.size() + raw_.size(); }
  // If no text follows, the answer ends with calls, the last of them whole.
  bool ends_whole() const {
    return n_calls_ > 0 && (at_ == At::after || (at_ == At::text && behind_call_ && raw_.empty()));
  }

 private:
  enum class At : uint8_t { bare, start, to_whom, begin, text, document, lead, item, after, over };
  void take(char c, AnswerParts& out);
  void take_bare(char c, AnswerParts& out);
  void take_to_whom(char c);
  void take_begin(char c, AnswerParts& out);
  void begin_document(AnswerParts& out);
  void take_text(char c, AnswerParts& out);
  void take_lead(char c, AnswerParts& out);
  void take_item(char c, AnswerParts& out);
  void take_after(char c, AnswerParts& out);
  void say(std::string_view text, AnswerParts& out);
  std::string take_unread();
  void tell(AnswerParts& out);
  void give_up(AnswerParts& out);
  void give_up_bare(AnswerParts& out);
  void tell_bare(AnswerParts& out);
  void begin_item();

  std::shared_ptr<const CallRules> rules_;
  const bool or_document_;
  std::shared_ptr<const StopStrings> trigger_;
  StopStrings::State state_ = 0;
  At at_ = At::text;
  std::string spaces_;                           // of the text, not yet told
  std::string raw_;                              // what may become a mark or a call, not yet told
  std::string again_;                            // read before what comes next; empty between two calls of push
  std::string lead_, between_, tail_, matched_;  // the marks without white space; what came of one
  std::optional<CallItem> item_;
  std::optional<BareCalls> bare_;
  int n_calls_ = 0;    // told
  bool told_ = false;  // the one that is read
  bool behind_call_ = false;
};

}  // namespace quire
