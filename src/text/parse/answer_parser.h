// An answer's text to its parts: reasoning, then text and calls. What comes out, joined, depends on the text alone. One
// thread at a time.
#pragma once
#include <memory>
#include <string_view>

#include "text/parse/call_parser.h"
#include "text/parse/thought_calls.h"
#include "text/reasoning.h"

namespace quire {

// How answers are split of which calls are messages.
inline ReasoningForm::Kind message_kind(const CallForm& form) {
  using Kind = ReasoningForm::Kind;
  if (!form.channels) return Kind::none;
  return form.recipients ? Kind::muse : Kind::channels;
}

class AnswerParser {
 public:
  // `rules` null: no calls. `document`: a grammar holds what is neither thought nor call, or what may come instead of
  // calls.
  AnswerParser(ReasoningForm::Kind reasoning,
               bool reasoning_open,
               std::shared_ptr<const CallRules> rules,
               bool document = false)
      : splitter_(
            reasoning, reasoning_open, rules != nullptr && rules->form != nullptr && rules->form->channels, document),
        thought_calls_(rules),
        calls_(std::move(rules), document) {}

  // Appends what is certain.
  void push(std::string_view text, AnswerParts& out);
  void finish(AnswerParts& out);  // no text follows
  bool thinking() const { return splitter_.thinking(); }
  bool over() const { return calls_.over(); }  // nothing more will come out
  int n_calls() const { return calls_.n_calls(); }

 private:
  void pass_on(AnswerParts& out);

  ReasoningSplitter splitter_;
  ThoughtCalls thought_calls_;
  CallParser calls_;
  AnswerParts split_;
};

}  // namespace quire
