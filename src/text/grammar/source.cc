// See source.h. The written form: one line with the notation and the reasoning, then the text.
#include "text/grammar/source.h"

#include <algorithm>
#include <array>

#include "text/grammar/structural_tag.h"

namespace quire {
namespace {

using Notation = GrammarSource::Notation;
using Kind = ReasoningForm::Kind;
using Part = GrammarComposer::Part;

constexpr std::array<std::string_view, 8> kNotations{"json_object", "json_schema", "regex", "choice",
                                                     "gbnf",        "ebnf",        "lark",  "structural_tag"};
constexpr std::array<std::string_view, 12> kReasonings{"none",    "think",        "channels", "command",
                                                       "gemma",   "command_text", "seed",     "minimax",
                                                       "mistral", "apriel",       "kimi",     "muse"};
constexpr std::string_view kOpen = " open", kOver = " over";

constexpr std::string_view kSpace = "[ \\t\\r\\n]{0,16}";  // around reasoning, where models write a line or two

template <size_t N>
size_t index_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

Result<Json> parse(std::string_view notation, std::string_view text) {
  auto json = Json::parse(text);
  if (!json) return fail(json.error().code, std::string(notation) + ": " + json.error().message);
  return json;
}

Result<Part> choice(GrammarComposer& composer, std::string_view text) {
  QR_TRY(const Json list, parse("choice", text));
  std::vector<std::string> texts;
  if (list.as_array() == nullptr || list.as_array()->empty())
    return fail(Code::invalid, "choice: must be a list of strings that is not empty");
  for (size_t i = 0; i < list.as_array()->size(); ++i) {
    const std::string* one = (*list.as_array())[i].as_string();
    if (one == nullptr) return fail(Code::invalid, "choice: #/" + std::to_string(i) + ": must be a string");
    texts.push_back(*one);
  }
  return composer.one_of(std::move(texts));
}

Result<Part> json_schema(GrammarComposer& composer, std::string_view text) {
  QR_TRY(const Json schema, parse("json_schema", text));
  return composer.json_schema(schema, {});
}

Result<Part> structural_tag(GrammarComposer& composer, std::string_view text) {
  QR_TRY(const Json tag, parse("structural_tag", text));
  return structural_tag_part(tag, composer);
}

Result<Part> part(GrammarComposer& composer, const GrammarSource& source) {
  switch (source.notation) {
    case Notation::json_object: return json_schema(composer, R"({"type":"object"})");
    case Notation::json_schema: return json_schema(composer, source.text);
    case Notation::regex: return composer.regex(source.text);
    case Notation::choice: return choice(composer, source.text);
    case Notation::gbnf: return composer.gbnf(source.text);
    case Notation::ebnf: return composer.ebnf(source.text);
    case Notation::lark: return composer.lark(source.text);
    case Notation::structural_tag: break;
  }
  return structural_tag(composer, source.text);
}

// Thoughts between their marks, or nothing of it where the prompt has not begun them.
Result<Part> behind_thoughts(GrammarComposer& c, Kind kind, bool open, Part answer) {
  const ReasoningMarks marks = reasoning_marks(kind);
  QR_TRY(const Part space, c.regex(kSpace));
  const std::string close[] = {std::string(marks.close)};
  const Part rest[] = {c.text_until(close), space, answer};
  if (open) return c.sequence(rest);
  const Part all[] = {space, c.literal(marks.open), c.sequence(rest)};
  std::vector<Part> ways{c.sequence(all), answer};
  const Part none[] = {space, c.literal(marks.close), space, answer};
  if (kind == Kind::minimax) ways.push_back(c.sequence(none));
  return c.choice(ways);
}

// As Command R and Kimi K3 mark what they say to the user; they may leave the marks out.
Part in_response(GrammarComposer& c, Kind kind, Part answer) {
  const auto maybe = [&c](std::string_view mark) { return c.repeat(c.literal(mark), 0, 1); };
  const ReasoningMarks marks = response_marks(kind);
  std::vector<Part> all{maybe(marks.open), answer, maybe(marks.close)};
  if (!turn_end(kind).empty()) all.push_back(maybe(turn_end(kind)));
  return c.sequence(all);
}

// Messages to others than the user, then the one that is the answer.
Result<Part> behind_channels(GrammarComposer& c, Part answer) {
  QR_TRY(const Part text, c.regex(kNoChannelMarks));
  const Part others[] = {c.literal("analysis"), c.literal("commentary")};
  const Part message[] = {c.literal("<|channel|>"), c.choice(others), c.literal("<|message|>"), text,
                          c.literal("<|end|><|start|>assistant")};
  const Part all[] = {c.repeat(c.sequence(message), 0, grammar::kNoLimit), c.literal("<|channel|>final<|message|>"),
                      answer};
  return c.sequence(all);
}

// The same of messages that say to whom they are.
Result<Part> behind_messages(GrammarComposer& c, Part answer) {
  QR_TRY(const Part text, c.regex(kNoMessageMarks));
  const Part message[] = {c.literal(" to=self<|message|>"), text, c.literal("<|eom|><|start|>assistant")};
  const Part all[] = {c.repeat(c.sequence(message), 0, grammar::kNoLimit), c.literal(" to=user<|message|>"), answer};
  return c.sequence(all);
}

}  // namespace

std::string GrammarSource::written() const {
  std::string out(kNotations[static_cast<size_t>(notation)]);
  out += ' ';
  out += kReasonings[static_cast<size_t>(reasoning)];
  if (reasoning_open) out += kOpen;
  if (reasoning_over) out += kOver;
  return out + '\n' + text;
}

Result<GrammarSource> GrammarSource::read(std::string_view text) {
  const auto wrong = [] { return fail(Code::corrupt, "this is no grammar's source"); };
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return wrong();
  std::string_view head = text.substr(0, end);
  GrammarSource out;
  out.text = text.substr(end + 1);
  out.reasoning_open = head.ends_with(kOpen);
  out.reasoning_over = head.ends_with(kOver);
  if (out.reasoning_open || out.reasoning_over) head.remove_suffix(kOpen.size());
  const size_t at = std::min(head.find(' '), head.size());
  const size_t notation = index_of(kNotations, head.substr(0, at));
  const size_t reasoning = index_of(kReasonings, head.substr(std::min(at + 1, head.size())));
  if (notation == kNotations.size() || reasoning == kReasonings.size()) return wrong();
  out.notation = static_cast<Notation>(notation);
  out.reasoning = static_cast<Kind>(reasoning);
  return out;
}

Result<std::shared_ptr<const Grammar>> compile_grammar(const GrammarSource& source,
                                                       const Tokenizer& tokenizer,
                                                       const GrammarLimits& limits) {
  if (source.text.size() > limits.source_bytes) {
    return fail(Code::invalid, std::string(kNotations[static_cast<size_t>(source.notation)]) + ": " +
                                   std::to_string(source.text.size()) + " bytes, the limit is " +
                                   std::to_string(limits.source_bytes));
  }
  const bool marks = source.notation == Notation::structural_tag || source.reasoning != Kind::none;
  GrammarComposer composer(limits, marks ? control_tokens(tokenizer) : std::vector<GrammarComposer::Control>());
  QR_TRY(const Part answer, part(composer, source));
  QR_TRY(const Part root, behind_reasoning(composer, source, answer));
  auto made = composer.finish(root);
  if (made) return made;
  const std::string whole = source.notation == Notation::json_schema ? ": #: " : ": ";
  return fail(made.error().code,
              std::string(kNotations[static_cast<size_t>(source.notation)]) + whole + made.error().message);
}

std::vector<GrammarComposer::Control> control_tokens(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  std::vector<GrammarComposer::Control> out;
  for (size_t i = 0; i < spec.types.size(); ++i) {
    if (spec.types[i] == TokenType::control) out.emplace_back(spec.tokens[i], static_cast<Token>(i));
  }
  return out;
}

Result<GrammarComposer::Part> behind_reasoning(GrammarComposer& composer, const GrammarSource& source, Part answer) {
  const Kind kind = source.reasoning;
  if (kind == Kind::channels) return behind_channels(composer, answer);
  if (kind == Kind::muse) return behind_messages(composer, answer);
  if (kind == Kind::none) return answer;
  if (!response_marks(kind).open.empty()) answer = in_response(composer, kind, answer);
  if (source.reasoning_over) return answer;
  return behind_thoughts(composer, kind, source.reasoning_open, answer);
}

}  // namespace quire
