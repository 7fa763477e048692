// Documents whose strings hold marks: what a grammar lets through behind any model's thoughts, or instead of calls, is
// read back exactly, however it is cut and wherever it ends.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sanitized.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/source.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

constexpr std::array kKinds{Kind::none, Kind::think,   Kind::channels, Kind::command, Kind::gemma, Kind::command_text,
                            Kind::seed, Kind::minimax, Kind::mistral,  Kind::apriel,  Kind::kimi,  Kind::muse};

// What some family or other takes for a mark, and what is between such marks.
const std::vector<std::string>& pieces() {
  static const std::vector<std::string> kPieces = [] {
    std::vector<std::string> out{"<|channel|>",
                                 "<|message|>",
                                 "<|start|>",
                                 "<|end|>",
                                 "<|return|>",
                                 "<|call|>",
                                 "<|eom|>",
                                 "<|eot|>",
                                 "<|start|>assistant<|channel|>analysis<|message|>",
                                 "<|start|>assistant to=self<|message|>",
                                 " to=self",
                                 " to=get",
                                 "assistant",
                                 "commentary to=functions.get <|constrain|>json",
                                 "<",
                                 "|>",
                                 "\"",
                                 "\\",
                                 "\n",
                                 " ",
                                 "{}",
                                 "a",
                                 "é",
                                 "get"};
    for (const Kind kind : kKinds) {
      const ReasoningMarks marks = reasoning_marks(kind), said = response_marks(kind);
      for (const std::string_view mark : {marks.open, marks.close, said.open, said.close, turn_end(kind)})
        if (!mark.empty()) out.emplace_back(mark);
    }
    return out;
  }();
  return kPieces;
}

template <class T>
const T& any_of(Rng& rng, const std::vector<T>& list) {
  return list[static_cast<size_t>(rng.between(0, std::ssize(list) - 1))];
}

std::string random_text(Rng& rng, const std::vector<std::string>& more) {
  std::string out;
  for (int64_t n = rng.between(0, 6); n > 0; --n)
    out += !more.empty() && rng.between(0, 1) == 0 ? any_of(rng, more) : any_of(rng, pieces());
  return out;
}

Json random_document(Rng& rng, const std::vector<std::string>& more) {
  const auto text = [&] { return Json(random_text(rng, more)); };
  switch (rng.between(0, 3)) {
    case 0: return text();
    case 1: return Json::Array{text(), text(), Json(3)};
    default: return Json::Object{{"a" + random_text(rng, more), text()}, {"b", Json::Array{text()}}, {"c", text()}};
  }
}

// A document's grammar behind what the kind of thoughts has in front of it, and how an answer may be.
struct Answer {
  std::string thought, text;
};

Answer answer_of(Rng& rng, Kind kind, bool open, const std::string& said) {
  const bool thinks = open || rng.between(0, 1) == 0;
  const std::string thought = thinks ? "Hm, <so>." : "";
  if (thinks_in_messages(kind)) {
    const bool muse = kind == Kind::muse;
    const std::string own = muse ? " to=self<|message|>" : "<|channel|>analysis<|message|>",
                      next = muse ? "<|eom|><|start|>assistant" : "<|end|><|start|>assistant",
                      user = muse ? " to=user<|message|>" : "<|channel|>final<|message|>";
    return {thought, (thinks ? own + thought + next : "") + user + said};
  }
  const ReasoningMarks marks = reasoning_marks(kind), response = response_marks(kind);
  std::string out;
  if (thinks && kind != Kind::none)
    out = (open ? "" : std::string(marks.open)) + thought + std::string(marks.close) + (open ? "\n\n" : "");
  const auto maybe = [&](std::string_view mark) { return rng.between(0, 1) == 0 ? std::string(mark) : ""; };
  const bool framed = !response.open.empty();
  if (framed) out += maybe(response.open);
  out += said;
  if (framed) out += maybe(response.close);
  return {kind == Kind::none ? "" : thought, out + maybe(turn_end(kind))};
}

std::shared_ptr<const Grammar> behind_thoughts(Kind kind, bool open, const std::shared_ptr<const Json>& tag) {
  GrammarComposer composer({}, {});
  auto document = tag != nullptr ? structural_tag_part(*tag, composer) : composer.json_schema(Json(true), {});
  EXPECT_TRUE(document) << (document ? "" : document.error().message);
  const GrammarSource source{.reasoning = kind, .reasoning_open = open};
  auto root = behind_reasoning(composer, source, *document);
  EXPECT_TRUE(root);
  auto made = composer.finish(*root);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return *made;
}

// Whole, cut, and of a beginning.
void expect_read(Rng& rng, const AnswerParser& fresh, const std::string& answer, const std::string& wanted) {
  const auto cut = static_cast<size_t>(rng.between(1, 9));
  for (const size_t n : {answer.size(), cut})
    ASSERT_EQ(shown(read_in_pieces(fresh, answer, n)), wanted) << answer << " cut at " << n;
  const std::string begin = answer.substr(0, static_cast<size_t>(rng.between(0, std::ssize(answer))));
  ASSERT_EQ(shown(read_in_pieces(fresh, begin, cut)), shown(read_in_pieces(fresh, begin, begin.size() + 1)))
      << begin << " cut at " << cut;
}

TEST(DocumentMarks, AreTextBehindEveryKindOfThoughts) {
  Rng rng(23);
  for (const Kind kind : kKinds) {
    for (const bool open : {false, true}) {
      if (open && (kind == Kind::none || thinks_in_messages(kind))) continue;
      const auto grammar = behind_thoughts(kind, open, nullptr);
      for (int round = 0; round < fewer_if_sanitized(1'500); ++round) {
        const std::string document = random_document(rng, {}).dump();
        const Answer answer = answer_of(rng, kind, open, document);
        ASSERT_TRUE(round % 20 != 0 || takes(grammar, answer.text)) << answer.text;
        const std::string thought = answer.thought.empty() ? "" : "reasoning: " + answer.thought + "\n";
        ASSERT_NO_FATAL_FAILURE(expect_read(rng, AnswerParser(kind, open, nullptr, true), answer.text,
                                            thought + "text: " + document + "\n"));
      }
    }
  }
}

// How answers of a family may begin.
std::vector<Kind> kinds_of(const CallForm& form) {
  if (form.channels) return {message_kind(form)};
  if (!form.said.empty()) return {Kind::none};
  return {kKinds.begin(), kKinds.end()};
}

// A call, or a document that holds calls as the family writes them, with their marks.
TEST(DocumentMarks, AreNoCallsInAnyFamily) {
  Rng rng(29);
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(family);
    const Json schema = *Json::parse(R"({"type":"object","properties":{"s":{"type":"string"}}})");
    auto rules = std::make_shared<CallRules>();
    rules->form = &form;
    rules->names = {"get"};
    rules->kinds = {ArgumentKinds(schema)};
    rules->or_document = true;
    const CallableTool tools[] = {{"get", any_arguments(form, rules->kinds[0])}};
    const CallTagRules both{.document = *Json::parse(R"({"type":"json_schema","json_schema":true})")};
    const auto tag = std::make_shared<const Json>(call_tag(form, tools, both));
    const std::string call =
        answer_begin(form) + call_as_written(form, "get", R"({"s": "a"})") + std::string(form.tail);
    const std::vector<std::string> more{call,
                                        std::string(form.lead),
                                        parser_begin(form) + "get",
                                        std::string(form.tail),
                                        std::string(form.text_end),
                                        std::string(form.short_lead)};
    for (const Kind kind : kinds_of(form)) {
      if (thinks_in_messages(kind) != form.channels) continue;
      const auto grammar = behind_thoughts(form.channels ? Kind::none : kind, false, tag);
      ASSERT_NE(grammar, nullptr) << family;
      for (int round = 0; round < fewer_if_sanitized(120); ++round) {
        const std::string document = random_document(rng, more).dump();
        const Answer answer = answer_of(rng, kind, false, std::string(form.said) + document);
        ASSERT_TRUE(round % 20 != 0 || takes(grammar, answer.text)) << family << ": " << answer.text;
        const std::string thought = answer.thought.empty() ? "" : "reasoning: " + answer.thought + "\n";
        ASSERT_NO_FATAL_FAILURE(
            expect_read(rng, AnswerParser(kind, false, rules, true), answer.text, thought + "text: " + document + "\n"))
            << family;
      }
      const std::string calls = form.channels ? call : answer_of(rng, kind, false, call).text;
      const AnswerParts parts = read_in_pieces(AnswerParser(kind, false, rules, true), calls, 1);
      EXPECT_TRUE(takes(grammar, calls)) << family << ": " << calls;
      EXPECT_EQ(parts.joined(PartKind::call) + parts.joined(PartKind::text), "get") << family << ": " << calls;
      EXPECT_EQ(*Json::parse(parts.joined(PartKind::arguments)), *Json::parse(R"({"s": "a"})")) << family;
    }
  }
}

}  // namespace
}  // namespace quire
