#include "text/reasoning.h"

#include <algorithm>
#include <array>
#include <span>

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

constexpr ReasoningMarks kThink{"<think>", "</think>"}, kCommand{"<|START_THINKING|>", "<|END_THINKING|>"},
    kGemma{"<|channel>thought", "<channel|>"};
constexpr std::string_view kGemmaToken = "<|channel>";  // of the opening mark
constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>";
constexpr std::array<std::string_view, 6> kChannelMarks{kChannel,  kMessage,     kStart,
                                                        "<|end|>", "<|return|>", "<|call|>"};
constexpr size_t kHeaderBytes = 2048;
constexpr std::string_view kToFunction = "to=functions.";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

ReasoningMarks reasoning_marks(Kind kind) {
  switch (kind) {
    case Kind::think: return kThink;
    case Kind::command: return kCommand;
    case Kind::gemma: return kGemma;
    case Kind::none:
    case Kind::channels: break;
  }
  return {};
}

ReasoningForm find_reasoning_form(const Tokenizer& tokenizer, std::string_view chat_template) {
  const TokenizerSpec& spec = tokenizer.spec();
  // The marks of <think>, of Command R, of channels, of Gemma: how many are tokens, and control tokens.
  const std::array<std::array<std::string_view, 2>, 4> marks{{{kThink.open, kThink.close},
                                                              {kCommand.open, kCommand.close},
                                                              {kChannel, kMessage},
                                                              {kGemmaToken, kGemma.close}}};
  std::array<int, 4> n{}, n_control{};
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    for (size_t m = 0; m < marks.size(); ++m) {
      if (std::find(marks[m].begin(), marks[m].end(), spec.tokens[i]) == marks[m].end()) continue;
      ++n[m];
      if (i < spec.types.size() && spec.types[i] == TokenType::control) ++n_control[m];
    }
  }
  if (n[2] == 2) return {Kind::channels, n_control[2] > 0};
  const auto in_template = [&](const ReasoningMarks& m) {
    return chat_template.find(m.open) != std::string_view::npos &&
           chat_template.find(m.close) != std::string_view::npos;
  };
  if (n[1] == 2 || in_template(kCommand)) return {Kind::command, n_control[1] > 0};
  if (n[3] == 2 || in_template(kGemma)) return {Kind::gemma, n_control[3] > 0};
  if (n[0] == 2 || in_template(kThink)) return {Kind::think, n_control[0] > 0};
  return {};
}

static bool ends_with_mark(std::string_view prompt, std::string_view mark) {
  while (!prompt.empty() && is_space(prompt.back())) prompt.remove_suffix(1);
  return !mark.empty() && prompt.ends_with(mark);
}

bool opens_reasoning(Kind kind, std::string_view prompt) { return ends_with_mark(prompt, reasoning_marks(kind).open); }
bool closes_reasoning(Kind kind, std::string_view prompt) {
  return ends_with_mark(prompt, reasoning_marks(kind).close);
}

std::string_view answer_lead(Kind kind, std::string_view prompt) {
  if (kind == Kind::channels) return "<|channel|>final<|message|>";
  const bool opens = opens_reasoning(kind, prompt);
  if (kind == Kind::command) return opens ? "<|END_THINKING|><|START_RESPONSE|>" : kResponse;
  if (kind == Kind::gemma) return opens ? kGemma.close : "";
  return opens ? "\n</think>\n\n" : "";
}

ReasoningSplitter::ReasoningSplitter(Kind kind, bool inside, bool calls)
    : kind_(kind),
      at_(kind == Kind::none ? At::content
          : inside           ? At::inside
                             : At::start),
      calls_(calls) {}

bool ReasoningSplitter::may_be_mark(std::string_view text) const {
  if (kind_ == Kind::channels)
    return std::any_of(kChannelMarks.begin(), kChannelMarks.end(), [&](auto mark) { return mark.starts_with(text); });
  const ReasoningMarks marks = reasoning_marks(kind_);
  if ((at_ == At::start && marks.open.starts_with(text)) || (at_ == At::inside && marks.close.starts_with(text)))
    return true;
  return kind_ == Kind::command && at_ != At::inside && (kResponse.starts_with(text) || kResponseEnd.starts_with(text));
}

bool ReasoningSplitter::is_mark(std::string_view text) const {
  if (text == (at_ == At::start ? reasoning_marks(kind_).open : reasoning_marks(kind_).close)) return at_ <= At::inside;
  return kind_ == Kind::command && at_ != At::inside && (text == kResponse || text == kResponseEnd);
}

void ReasoningSplitter::push(std::string_view text, AnswerParts& out) {
  for (const char c : text) take(c, out);
}

// Every mark begins with '<' and has no other, so what was held is given up as a whole.
void ReasoningSplitter::take(char c, AnswerParts& out) {
  held_ += c;
  if (!may_be_mark(held_)) {
    held_.pop_back();
    const std::string given_up = std::move(held_);
    held_.clear();
    on_text(given_up, out);
    held_ = c;
    if (may_be_mark(held_)) return;
    held_.clear();
    return on_text({&c, 1}, out);
  }
  const bool whole = kind_ == Kind::channels
                         ? std::find(kChannelMarks.begin(), kChannelMarks.end(), held_) != kChannelMarks.end()
                         : is_mark(held_);
  if (!whole) return;
  const std::string mark = std::move(held_);
  held_.clear();
  on_mark(mark, out);
}

void ReasoningSplitter::on_mark(std::string_view mark, AnswerParts& out) {
  spaces_.clear();
  said_ = false;
  if (mark == kResponse || mark == kResponseEnd) {
    at_ = At::content;
  } else if (kind_ != Kind::channels) {
    at_ = at_ == At::start ? At::inside : At::after;
  } else if (mark == kMessage) {
    end_header(out);
  } else {
    if (mark != kChannel || at_ != At::header) header_.clear();  // who it is to may stand before its channel
    if (mark == kChannel) header_ += mark;
    at_ = At::header;
  }
}

// "final" is said to the user; so is a message that names no channel.
void ReasoningSplitter::end_header(AnswerParts& out) {
  const std::string_view header = header_;
  const size_t channel = header.rfind(kChannel), to = header.find(kToFunction);
  const bool named = channel != std::string_view::npos;
  at_ = !named || header.substr(channel + kChannel.size()).starts_with("final") ? At::content : At::inside;
  if (calls_ && to != std::string_view::npos) {
    const std::string_view name = header.substr(to + kToFunction.size());
    out.add(PartKind::text, kCallMessage);
    out.add(PartKind::text, name.substr(0, name.find_first_of(" <")));
    out.add(PartKind::text, kMessage);
    at_ = At::content;
  }
  header_.clear();
}

void ReasoningSplitter::on_text(std::string_view text, AnswerParts& out) {
  for (const char c : text) {
    if (at_ == At::header) {
      if (header_.size() < kHeaderBytes) header_ += c;
      continue;
    }
    if (at_ == At::content) {
      out.add(PartKind::text, {&c, 1});
      continue;
    }
    if (is_space(c)) {
      if (at_ != At::after && (said_ || at_ == At::start)) spaces_ += c;
      continue;
    }
    if (at_ != At::inside) at_ = At::content;
    const PartKind kind = at_ == At::inside ? PartKind::reasoning : PartKind::text;
    out.add(kind, spaces_);
    out.add(kind, {&c, 1});
    spaces_.clear();
    said_ = true;
  }
}

void ReasoningSplitter::finish(AnswerParts& out) {
  const std::string rest = std::move(held_);
  held_.clear();
  on_text(rest, out);
  if (at_ == At::start) out.add(PartKind::text, spaces_);
  spaces_.clear();
}

}  // namespace quire
