#include "text/reasoning.h"

#include <algorithm>
#include <array>
#include <span>

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

constexpr std::string_view kOpen = "<think>", kClose = "</think>";
constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>";
constexpr std::array<std::string_view, 6> kChannelMarks{kChannel,  kMessage,     kStart,
                                                        "<|end|>", "<|return|>", "<|call|>"};
constexpr size_t kHeaderBytes = 2048;
constexpr std::string_view kToFunction = "to=functions.";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

ReasoningForm find_reasoning_form(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  int n_think = 0, n_channel = 0, n_control = 0;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string& text = spec.tokens[i];
    const bool think = text == kOpen || text == kClose, channel = text == kChannel || text == kMessage;
    n_think += think ? 1 : 0;
    n_channel += channel ? 1 : 0;
    if ((think || channel) && i < spec.types.size() && spec.types[i] == TokenType::control) ++n_control;
  }
  if (n_channel == 2) return {Kind::channels, n_control > 0};
  const auto in_template = [&](std::string_view mark) { return spec.chat_template.find(mark) != std::string::npos; };
  if (n_think == 2 || (in_template(kOpen) && in_template(kClose))) return {Kind::think, n_control > 0};
  return {};
}

static bool ends_with_mark(Kind kind, std::string_view prompt, std::string_view mark) {
  while (!prompt.empty() && is_space(prompt.back())) prompt.remove_suffix(1);
  return kind == Kind::think && prompt.ends_with(mark);
}

bool opens_reasoning(Kind kind, std::string_view prompt) { return ends_with_mark(kind, prompt, kOpen); }
bool closes_reasoning(Kind kind, std::string_view prompt) { return ends_with_mark(kind, prompt, kClose); }

std::string_view answer_lead(Kind kind, std::string_view prompt) {
  if (kind == Kind::channels) return "<|channel|>final<|message|>";
  return opens_reasoning(kind, prompt) ? "\n</think>\n\n" : "";
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
  return (at_ == At::start && kOpen.starts_with(text)) || (at_ == At::inside && kClose.starts_with(text));
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
                         : held_ == (at_ == At::start ? kOpen : kClose);
  if (!whole) return;
  const std::string mark = std::move(held_);
  held_.clear();
  on_mark(mark, out);
}

void ReasoningSplitter::on_mark(std::string_view mark, AnswerParts& out) {
  spaces_.clear();
  said_ = false;
  if (kind_ == Kind::think) {
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
