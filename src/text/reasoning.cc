#include "text/reasoning.h"

#include <algorithm>
#include <array>
#include <span>

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

struct Marked {
  Kind kind;
  ReasoningMarks marks;
};
// In the order in which they are looked for.
constexpr std::array<Marked, 9> kMarked{{{Kind::command, {"<|START_THINKING|>", "<|END_THINKING|>"}},
                                         {Kind::command_text, {"<|START_THINKING|>", "<|END_THINKING|>"}},
                                         {Kind::gemma, {"<|channel>thought", "<channel|>"}},
                                         {Kind::kimi, {"<|open|>think<|sep|>", "<|close|>think<|sep|>"}},
                                         {Kind::seed, {"<seed:think>", "</seed:think>"}},
                                         {Kind::minimax, {"<mm:think>", "</mm:think>"}},
                                         {Kind::mistral, {"[THINK]", "[/THINK]"}},
                                         {Kind::apriel, {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"}},
                                         {Kind::think, {"<think>", "</think>"}}}};
constexpr ReasoningMarks kResponse{"<|START_RESPONSE|>", "<|END_RESPONSE|>"}, kText{"<|START_TEXT|>", "<|END_TEXT|>"},
    kKimiResponse{"<|open|>response<|sep|>", "<|close|>response<|sep|>"};
constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>";
constexpr std::array<std::string_view, 6> kChannelMarks{kChannel,  kMessage,     kStart,
                                                        "<|end|>", "<|return|>", "<|call|>"};
constexpr std::array<std::string_view, 4> kMuseMarks{kMessage, kStart, "<|eom|>", "<|eot|>"};
constexpr std::string_view kToSelf = "to=self<|message|>";
constexpr size_t kHeaderBytes = 2048;
constexpr std::string_view kTo = " to=";  // an answer may begin so: its prompt ends within the header
constexpr std::string_view kToFunction = "to=functions.";

// Whether an answer without thoughts may begin with the mark that ends them, as MiniMax M3's do (grammar/source.cc lets
// them).
bool may_begin_closed(Kind kind) { return kind == Kind::minimax; }

// The tokens that the marks begin with.
ReasoningMarks first_tokens(const Marked& marked) {
  if (marked.kind == Kind::gemma) return {"<|channel>", marked.marks.close};
  return marked.kind == Kind::kimi ? ReasoningMarks{"<|open|>", "<|close|>"} : marked.marks;
}

std::span<const std::string_view> message_marks(Kind kind) {
  return kind == Kind::muse ? std::span<const std::string_view>(kMuseMarks) : kChannelMarks;
}

// What may stand behind a document; Apriel's mark is none of it.
std::string_view document_end(Kind kind) {
  const ReasoningMarks marks = response_marks(kind);
  return marks.open.empty() ? std::string_view() : marks.close;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

ReasoningMarks reasoning_marks(Kind kind) {
  const auto* const found =
      std::find_if(kMarked.begin(), kMarked.end(), [&](const Marked& m) { return m.kind == kind; });
  return found != kMarked.end() ? found->marks : ReasoningMarks{};
}

ReasoningMarks response_marks(Kind kind) {
  if (kind == Kind::command) return kResponse;
  if (kind == Kind::apriel) return {"", "[END FINAL RESPONSE]"};
  if (kind == Kind::kimi) return kKimiResponse;
  return kind == Kind::command_text ? kText : ReasoningMarks{};
}

bool thinks_in_messages(Kind kind) { return kind == Kind::channels || kind == Kind::muse; }

std::string_view turn_end(Kind kind) { return kind == Kind::kimi ? "<|close|>message<|sep|>" : ""; }

ReasoningForm find_reasoning_form(const Tokenizer& tokenizer, std::string_view chat_template) {
  const TokenizerSpec& spec = tokenizer.spec();
  // Of each kind, then of channels: how many of its marks are tokens, and control tokens.
  std::array<int, kMarked.size() + 1> n{}, n_control{};
  const auto count = [&](size_t i, size_t at, std::string_view open, std::string_view close) {
    if (spec.tokens[i] != open && spec.tokens[i] != close) return;
    ++n[at];
    if (i < spec.types.size() && spec.types[i] == TokenType::control) ++n_control[at];
  };
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    for (size_t k = 0; k < kMarked.size(); ++k) {
      const ReasoningMarks tokens = first_tokens(kMarked[k]);
      count(i, k, tokens.open, tokens.close);
    }
    count(i, kMarked.size(), kChannel, kMessage);
  }
  if (n.back() == 2) return {Kind::channels, n_control.back() > 0};
  if (chat_template.find(kToSelf) != std::string_view::npos) return {Kind::muse, n_control.back() > 0};
  const auto in_template = [&](const ReasoningMarks& m) {
    return chat_template.find(m.open) != std::string_view::npos &&
           chat_template.find(m.close) != std::string_view::npos;
  };
  // A vocabulary may have marks of a model that it was made for once.
  for (const bool asked : {true, false}) {
    for (size_t k = 0; k < kMarked.size(); ++k) {
      const Kind kind = kMarked[k].kind;
      const ReasoningMarks written = kind == Kind::kimi ? first_tokens(kMarked[k]) : kMarked[k].marks;
      if (asked ? !in_template(written) : n[k] < 2) continue;
      const bool text = kind == Kind::command && in_template(kText) && !in_template(kResponse);
      return {text ? Kind::command_text : kind, n_control[k] > 0};
    }
  }
  return {};
}

static bool ends_with_mark(std::string_view prompt, std::string_view mark) {
  while (!prompt.empty() && is_space(prompt.back())) prompt.remove_suffix(1);
  return !mark.empty() && prompt.ends_with(mark);
}

bool opens_reasoning(Kind kind, std::string_view prompt) { return ends_with_mark(prompt, reasoning_marks(kind).open); }
bool closes_reasoning(Kind kind, std::string_view prompt) {
  return ends_with_mark(prompt, reasoning_marks(kind).close) || ends_with_mark(prompt, response_marks(kind).open);
}

std::string_view answer_lead(Kind kind, std::string_view prompt) {
  if (kind == Kind::channels) return "<|channel|>final<|message|>";
  if (kind == Kind::muse) return " to=user<|message|>";
  const bool opens = opens_reasoning(kind, prompt);
  if (kind == Kind::command) return opens ? "<|END_THINKING|><|START_RESPONSE|>" : kResponse.open;
  if (kind == Kind::command_text) return opens ? "<|END_THINKING|><|START_TEXT|>" : kText.open;
  if (kind == Kind::kimi) {
    if (opens) return "<|close|>think<|sep|><|open|>response<|sep|>";
    return closes_reasoning(kind, prompt) ? "" : kKimiResponse.open;
  }
  if (!opens) return "";
  if (kind == Kind::think) return "\n</think>\n\n";
  return kind == Kind::apriel ? "\n[BEGIN FINAL RESPONSE]\n" : reasoning_marks(kind).close;
}

ReasoningSplitter::ReasoningSplitter(Kind kind, bool inside, bool calls, bool document)
    : kind_(kind),
      at_(kind == Kind::none ? At::content
          : inside           ? At::inside
                             : At::start),
      calls_(calls),
      document_(document) {}

// As the grammar has it: the mark that ends the response, that of the turn, or both.
bool ReasoningSplitter::may_end_document(std::string_view text) const {
  const std::string_view close = document_end(kind_), turn = turn_end(kind_);
  if (close.starts_with(text) || turn.starts_with(text)) return true;
  return !close.empty() && text.starts_with(close) && turn.starts_with(text.substr(close.size()));
}

bool ReasoningSplitter::may_be_mark(std::string_view text) const {
  if (in_document()) return may_end_document(text);
  if (thinks_in_messages(kind_)) {
    const std::span<const std::string_view> marks = message_marks(kind_);
    return (at_ == At::start && kTo.starts_with(text)) ||
           std::any_of(marks.begin(), marks.end(), [&](auto mark) { return mark.starts_with(text); });
  }
  const auto begins = [&](std::string_view mark) { return mark.starts_with(text); };
  const ReasoningMarks marks = reasoning_marks(kind_), said = response_marks(kind_);
  const bool may_close = at_ == At::inside || (at_ == At::start && may_begin_closed(kind_));
  if ((at_ == At::start && begins(marks.open)) || (may_close && begins(marks.close))) return true;
  return at_ != At::inside && (begins(said.open) || begins(said.close) || begins(turn_end(kind_)));
}

bool ReasoningSplitter::is_mark(std::string_view text) const {
  if (thinks_in_messages(kind_)) {
    const std::span<const std::string_view> marks = message_marks(kind_);
    return text == kTo || std::find(marks.begin(), marks.end(), text) != marks.end();
  }
  const ReasoningMarks marks = reasoning_marks(kind_), said = response_marks(kind_);
  const bool may_close = at_ == At::inside || (at_ == At::start && may_begin_closed(kind_));
  if ((at_ == At::start && text == marks.open) || (may_close && text == marks.close)) return true;
  return at_ != At::inside && (text == said.open || text == said.close || text == turn_end(kind_));
}

void ReasoningSplitter::push(std::string_view text, AnswerParts& out) {
  for (const char c : text) take(c, out);
}

// What is held is given up as far as no mark begins in it. No mark ends within another.
void ReasoningSplitter::take(char c, AnswerParts& out) {
  at_mark_ = false;
  if (in_string_ && held_.empty()) return on_text({&c, 1}, out);
  held_ += c;
  while (!held_.empty() && !may_be_mark(held_)) {
    const char first = held_.front();
    held_.erase(0, 1);
    on_text({&first, 1}, out);
  }
  if (held_.empty() || in_document() || !is_mark(held_)) return;
  const std::string mark = std::move(held_);
  held_.clear();
  at_mark_ = true;
  on_mark(mark, out);
}

void ReasoningSplitter::on_mark(std::string_view mark, AnswerParts& out) {
  spaces_.clear();
  said_ = false;
  if (mark == response_marks(kind_).open || mark == response_marks(kind_).close || mark == turn_end(kind_)) {
    at_ = At::content;
  } else if (!thinks_in_messages(kind_)) {
    at_ = mark == reasoning_marks(kind_).open ? At::inside : At::after;
  } else if (mark == kMessage) {
    kind_ == Kind::muse ? end_recipient(out) : end_header(out);
  } else {
    if (mark != kChannel || at_ != At::header) header_.clear();  // who it is to may stand before its channel
    if (mark == kChannel || mark == kTo) header_ += mark;
    at_ = At::header;
  }
}

bool ReasoningSplitter::is_said() const {
  return at_ == At::header && header_.starts_with(kTo) && header_.find(kChannel) == std::string::npos;
}

// "final" is said to the user; so is a message that names no channel.
void ReasoningSplitter::end_header(AnswerParts& out) {
  const std::string_view header = header_;
  const size_t channel = header.rfind(kChannel), to = header.find(kToFunction);
  const bool named = channel != std::string_view::npos;
  at_ = !named || header.substr(channel + kChannel.size()).starts_with("final") ? At::content : At::inside;
  in_call_ = calls_ && to != std::string_view::npos;
  if (in_call_) {
    const std::string_view name = header.substr(to + kToFunction.size());
    out.add(PartKind::text, kCallMessage);
    out.add(PartKind::text, name.substr(0, name.find_first_of(" <")));
    out.add(PartKind::text, kMessage);
    at_ = At::content;
  }
  header_.clear();
}

// What is to nobody is said to the user.
void ReasoningSplitter::end_recipient(AnswerParts& out) {
  const std::string_view header = header_, mark = kTo.substr(1);
  const size_t to = header.find(mark);
  std::string_view name = to == std::string_view::npos ? "user" : header.substr(to + mark.size());
  name = name.substr(0, name.find_first_of(" \n<"));
  in_call_ = calls_ && is_tool_recipient(name);
  at_ = in_call_ || name == "user" ? At::content : At::inside;
  if (in_call_) out.add(PartKind::text, kToolMessage);
  header_.clear();
}

void ReasoningSplitter::on_text(std::string_view text, AnswerParts& out) {
  for (const char c : text) {
    if (at_ == At::header) {
      if (header_.size() < kHeaderBytes) header_ += c;
      if (header_.size() < kHeaderBytes || !is_said()) continue;
      out.add(PartKind::text, header_);
      header_.clear();
      at_ = At::content;
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
    if (at_ == At::inside && !said_ && thought_) spaces_ = '\n';
    thought_ = thought_ || at_ == At::inside;
    out.add(kind, spaces_);
    out.add(kind, {&c, 1});
    spaces_.clear();
    said_ = true;
  }
}

void ReasoningSplitter::finish(AnswerParts& out) {
  std::string rest = std::move(held_);
  held_.clear();
  const std::string_view close = document_end(kind_);
  const bool is_end = rest == turn_end(kind_) || (!close.empty() && rest.starts_with(close));
  if (in_document() && is_end) rest.clear();
  on_text(rest, out);
  if (is_said()) out.add(PartKind::text, header_);
  if (at_ == At::start) out.add(PartKind::text, spaces_);
  spaces_.clear();
}

}  // namespace quire
