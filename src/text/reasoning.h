// What a model thought, taken apart from what it says: <think>…</think> before the answer, the same in the words of
// Seed-OSS, MiniMax M3, Mistral ([THINK]…[/THINK]), Apriel, Gemma 4 (<|channel>thought…<channel|>) or Command R
// (<|START_THINKING|>…<|END_THINKING|><|START_RESPONSE|>…<|END_RESPONSE|>, in later models
// <|START_TEXT|>…<|END_TEXT|>) or Kimi K3 (<|open|>think<|sep|>…<|close|>think<|sep|>, what it says in response instead
// of think), or channels as gpt-oss writes them
// (<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…), or messages as Muse writes
// them (to=self<|message|>…<|eom|><|start|>assistant to=user<|message|>…). One byte at a time, so what comes out,
// joined, does not depend on how the text was cut.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/parse/answer_parts.h"
#include "text/tokenizer.h"

namespace quire {

struct ReasoningForm {
  enum class Kind : uint8_t {
    none,
    think,
    channels,
    command,
    gemma,
    command_text,
    seed,
    minimax,
    mistral,
    apriel,
    kimi,
    muse
  };
  Kind kind = Kind::none;
  bool hidden = false;  // the marks are control tokens: they have to be shown to whoever splits
};
// What thoughts stand between; both empty where there are none, or channels instead.
struct ReasoningMarks {
  std::string_view open{}, close{};
};
ReasoningMarks reasoning_marks(ReasoningForm::Kind kind);

// Whether an answer is messages of which some are thoughts: no mark opens or closes these.
bool thinks_in_messages(ReasoningForm::Kind kind);

// What Command R's models and Kimi K3 put around what they say to the user, and Apriel's behind it; empty for others.
ReasoningMarks response_marks(ReasoningForm::Kind kind);
// What Kimi K3 ends its turn with, in front of the token that ends it; empty for others.
std::string_view turn_end(ReasoningForm::Kind kind);

// By the marks in the vocabulary, or, but for channels, in the chat template that a model is asked with. Kimi K3's are
// known by the tokens that they are made of.
ReasoningForm find_reasoning_form(const Tokenizer& tokenizer, std::string_view chat_template);

// A pattern for text of a channel's message: whoever reads it takes these for marks, whichever tokens spell them.
inline constexpr std::string_view kNoChannelMarks =
    R"((?![\s\S]*<\|(?:channel|message|start|end|return|call)\|>)[\s\S]*)";
inline constexpr std::string_view kCallMessage = "<|channel|>commentary to=functions.";
// The same of Muse's messages, and what a message to a tool begins with for who reads calls.
inline constexpr std::string_view kNoMessageMarks = R"((?![\s\S]*<\|(?:message|start|eom|eot)\|>)[\s\S]*)";
inline constexpr std::string_view kToolMessage = "<|start|>assistant to=tool<|message|>";
// Whether a message of Muse's to this name is to a tool: neither to the user nor to the model itself.
inline bool is_tool_recipient(std::string_view name) { return name != "user" && name != "self"; }

class ReasoningSplitter {
 public:
  ReasoningSplitter() = default;  // everything is text
  // `inside`: the prompt has opened the thinking already. `calls`: a message to a function is passed on, as text of the
  // form kCallMessage NAME<|message|>… or behind kToolMessage; otherwise it is reasoning. `document`: a grammar holds
  // what is said to the user (grammar/source.h): no mark counts in it, and those that end a response behind it alone.
  ReasoningSplitter(ReasoningForm::Kind kind, bool inside, bool calls = false, bool document = false);

  // Appends what is certain, as reasoning and text. White space around the reasoning, and between it and the text, is
  // dropped; a line ends between two thoughts.
  void push(std::string_view text, AnswerParts& out);
  // No text follows: what may have been the beginning of a mark is text.
  void finish(AnswerParts& out);
  // Whether what comes next stands in a string of a call's arguments: no mark counts there. As the last one said.
  void in_string(bool inside) { in_string_ = inside; }
  bool at_mark() const { return at_mark_; }  // the last byte ended a mark
  // What came last belongs to the reasoning, or to the marks around it.
  bool thinking() const { return at_ != At::content && at_ != At::start; }
  bool inside() const { return at_ == At::inside; }  // no mark has ended the thoughts

 private:
  enum class At : uint8_t { start, inside, after, header, content };
  void take(char c, AnswerParts& out);
  bool in_document() const { return document_ && at_ == At::content && !in_call_; }
  bool may_end_document(std::string_view text) const;
  bool is_said() const;  // a header that no mark has ended and that began as text may
  bool may_be_mark(std::string_view text) const;
  bool is_mark(std::string_view text) const;
  void on_mark(std::string_view mark, AnswerParts& out);
  void on_text(std::string_view text, AnswerParts& out);
  void end_header(AnswerParts& out);
  void end_recipient(AnswerParts& out);

  ReasoningForm::Kind kind_ = ReasoningForm::Kind::none;
  At at_ = At::content;
  bool calls_ = false, document_ = false, in_string_ = false;
  bool in_call_ = false;  // a message to a function
  bool at_mark_ = false;
  bool said_ = false;  // something of the part that is running
  bool thought_ = false;
  std::string held_;    // may become a mark
  std::string spaces_;  // white space that may be the last of the reasoning
  std::string header_;  // of a channel's message, its first bytes
};

// Whether a rendered prompt ends within thoughts that it opened.
bool opens_reasoning(ReasoningForm::Kind kind, std::string_view prompt);
// Whether it ends behind closed ones: the answer begins at once.
bool closes_reasoning(ReasoningForm::Kind kind, std::string_view prompt);
// What comes between a rendered prompt and an answer without thinking.
std::string_view answer_lead(ReasoningForm::Kind kind, std::string_view prompt);

}  // namespace quire
