// Marks in strings of arguments are text: what a family writes is let through by its grammar and read back exactly,
// however it is cut. What its form cannot say is not let through. Grammar and parser agree on where values end.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sanitized.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/structural_tag.h"
#include "text/parse/call_arguments.h"
#include "text/parse/call_grammar.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

const Json& schema() {
  static const Json kSchema = *Json::parse(
      R"({"type":"object","properties":{"s":{"type":"string"},"i":{"type":"integer"},"l":{"type":"array","items":
      {"type":"string"}},"o":{"type":"object","additionalProperties":{"type":"string"}},"u":{},
      "n":{"anyOf":[{"type":"string"},{"type":"null"}]}}})");
  return kSchema;
}

std::shared_ptr<const CallRules> rules_of(const CallForm& form) {
  auto out = std::make_shared<CallRules>();
  out->form = &form;
  out->names = {"get"};
  out->kinds = {ArgumentKinds(schema())};
  return out;
}

std::shared_ptr<const Grammar> grammar_of(const CallForm& form, bool obeys) {
  auto arguments =
      obeys ? obeying_arguments(form, schema()) : Result<Json>(any_arguments(form, ArgumentKinds(schema())));
  EXPECT_TRUE(arguments) << (arguments ? "" : arguments.error().message);
  const CallableTool tools[] = {{"get", *arguments}};
  auto made = compile_structural_tag(call_tag(form, tools, {.required = true}), {}, {});
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return *made;
}

std::vector<std::string> marks_of(const CallForm& f) {
  std::vector<std::string> out{
      "\"", "\\", "<|end|>", "<|call|>", "<|START_RESPONSE|>", "<|END_TEXT|>", "</think>", "[END FINAL RESPONSE]"};
  for (const JsonKeyEnd& end : json_key_ends(f, kEveryKind)) out.push_back(end.mark);
  for (const std::string_view mark :
       {f.trigger, f.lead, f.between, f.tail, f.short_lead, f.name_end, f.call_end, f.key_begin, f.key_end, f.value_end,
        f.wrap_begin, f.wrap_end, f.string_mark, f.tag_mark, reasoning_marks(Kind::gemma).open,
        reasoning_marks(Kind::gemma).close})
    if (!mark.empty()) out.emplace_back(mark);
  return out;
}

// How an answer of the family may begin.
std::vector<Kind> kinds_of(const CallForm& form) {
  if (form.channels) return {message_kind(form)};
  return {Kind::none,   Kind::think, Kind::command, Kind::command_text,
          Kind::apriel, Kind::gemma, Kind::mistral, Kind::kimi};
}

TEST(StringMarks, AreTextInEveryFamily) {
  Rng rng(17);
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(family);
    const auto free = grammar_of(form, false), obeying = grammar_of(form, true);
    const auto rules = rules_of(form);
    for (const std::string& mark : marks_of(form)) {
      const Json text("a" + mark + "b");
      const Json list = Json::Array{Json("x"), Json(mark), Json("\"" + mark + "\"")};
      const Json object = Json::Object{{"k", "]}" + mark + "{["}};
      const bool has_end = form.marked() && mark.find(form.value_end) != std::string::npos && form.wrap_begin.empty();
      const std::string_view own = form.quoted() ? form.string_mark : form.tag_mark;
      const bool has_mark = !own.empty() && mark.find(own) != std::string::npos;
      const std::pair<Json, bool> cases[] = {
          {Json::Object{{"s", text}}, !has_end && !has_mark},
          {Json::Object{{"u", text}}, !has_end && !has_mark},
          {Json::Object{{"s", "x"}, {"l", list}, {"o", object}, {"u", Json::Array{object}}}, !has_mark}};
      for (const auto& [arguments, can_be_said] : cases) {
        const std::string answer =
            answer_begin(form) + call_as_written(form, "get", arguments.dump()) + std::string(form.tail);
        EXPECT_EQ(takes(free, answer), can_be_said) << family << ": " << answer;
        EXPECT_EQ(takes(obeying, answer), can_be_said) << family << ": " << answer;
        if (!can_be_said) continue;
        for (const Kind kind : kinds_of(form)) {
          for (const size_t cut : {answer.size(), static_cast<size_t>(rng.between(1, 9)), size_t{1}}) {
            const AnswerParts parts = read_in_pieces(AnswerParser(kind, false, rules), answer, cut);
            const auto read = Json::parse(parts.joined(PartKind::arguments));
            ASSERT_TRUE(read && *read == arguments && parts.joined(PartKind::call) == "get")
                << family << ": " << answer << " cut at " << cut << ": " << shown(parts);
            ASSERT_FALSE(parts.has(PartKind::text)) << family << ": " << answer;
          }
        }
      }
    }
  }
}

// A control token never comes within a string of a call, also where nobody has closed it; its text, spelled by other
// tokens, does where the form's own strings do not end with it.
TEST(StringMarks, AreNoControlTokensInAString) {
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(family);
    const std::string mark = form.channels ? "<|end|>" : "<|END_OF_TURN|>";
    for (const bool obeys : {false, true}) {
      const auto arguments =
          obeys ? obeying_arguments(form, schema()) : Result<Json>(any_arguments(form, ArgumentKinds(schema())));
      ASSERT_TRUE(arguments) << family;
      const CallableTool tools[] = {{"get", *arguments}};
      const auto made = compile_structural_tag(call_tag(form, tools, {.required = true}), {{mark, kByteControl}}, {});
      ASSERT_TRUE(made) << family << ": " << made.error().message;
      const std::string call = call_as_written(form, "get", R"({"s": "a~"})");
      const std::string open = answer_begin(form) + call.substr(0, call.find('~'));
      Matcher m(*made, byte_vocabulary());
      ASSERT_TRUE(m.accept_text(open)) << family << ": " << open;
      EXPECT_FALSE(m.accept(kByteControl)) << family;
      ASSERT_TRUE(m.accept_text(mark)) << family;
      const AnswerParts parts = read_in_pieces(AnswerParser(kinds_of(form)[0], false, rules_of(form)), open + mark, 1);
      EXPECT_EQ(parts.joined(PartKind::call), "get") << family;
      EXPECT_TRUE(parts.joined(PartKind::arguments).ends_with("a" + mark)) << family << ": " << shown(parts);
    }
  }
}

// Whatever stands between the marks of an argument that need not obey: it is let through where the parser reads it as
// the value of that argument and nothing else, and only there.
TEST(StringMarks, GrammarAndParserAgreeOnWhereAValueEnds) {
  Rng rng(19);
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(family);
    if (!form.marked()) continue;
    const auto free = grammar_of(form, false);
    const auto rules = rules_of(form);
    std::vector<std::string> pieces{"\"", "\"", "[", "{", "]", ",", ":", " ", "\n", "\\", "a", "<", "é"};
    for (int i = 0; i < 3; ++i) pieces.emplace_back(form.value_end);
    for (const std::string_view mark : {form.wrap_begin, form.wrap_end})
      if (!mark.empty()) pieces.emplace_back(mark);
    int n_yes = 0, n_inside = 0;
    for (int round = 0; round < fewer_if_sanitized(4'000); ++round) {
      std::string value;
      for (int64_t n = rng.between(0, 9); n > 0; --n)
        value += pieces[static_cast<size_t>(rng.between(0, std::ssize(pieces) - 1))];
      if (rng.between(0, 1) == 0) value = "[\"" + value + "\"]";
      const char* keys[] = {"s", "i", "l", "u", "n", "other"};
      const std::string key = keys[rng.between(0, 5)];
      const auto json_ends = json_key_ends(form, kEveryKind);
      const bool is_json = !json_ends.empty() && rng.between(0, 1) == 0;
      const std::string key_end = is_json
                                      ? json_ends[static_cast<size_t>(rng.between(0, std::ssize(json_ends) - 1))].mark
                                      : std::string(form.key_end);
      const std::string line = form.padded ? "\n" : "";
      std::string text = answer_begin(form) + "get";
      if (!form.id_pattern.empty()) text += std::string(form.id_mark) + "0";
      text += std::string(form.name_end) + std::string(form.key_begin) + key + key_end + line + value + line +
              std::string(form.value_end) + (form.joined ? "" : "\n") + std::string(form.call_end) +
              std::string(form.tail);
      const AnswerParts parts = read_in_pieces(AnswerParser(message_kind(form), false, rules), text, text.size());
      const auto read = Json::parse(parts.joined(PartKind::arguments));
      const bool whole = read && read->as_object() != nullptr && read->as_object()->size() == 1 &&
                         read->find(key) != nullptr && !parts.has(PartKind::text);
      const bool may = takes(free, text);
      EXPECT_TRUE(is_json ? whole || !may : whole == may) << family << ": " << text << ": " << shown(parts);
      n_yes += may ? 1 : 0;
      n_inside += may && value.find(form.value_end) != std::string::npos ? 1 : 0;
    }
    EXPECT_GE(n_yes, 50) << family;
    EXPECT_GE(n_inside, fewer_if_sanitized(10)) << family;
  }
}

// Of a parameter that can be no list and no object, the first mark ends the value, whatever stands before it.
TEST(StringMarks, WhatCannotNestEndsAtTheFirstMark) {
  for (const std::string& family : Registry<CallForm>::get().names()) {
    const CallForm& form = *find_call_form(family);
    if (!form.marked()) continue;
    for (const std::string begin : {"{\"a", "[\"x] said \""}) {
      const Json arguments = Json::Object{{"n", begin}};
      const std::string answer =
          answer_begin(form) + call_as_written(form, "get", arguments.dump()) + std::string(form.tail);
      for (const bool obeys : {false, true}) EXPECT_TRUE(takes(grammar_of(form, obeys), answer)) << answer;
      const auto parts = read_in_pieces(AnswerParser(message_kind(form), false, rules_of(form)), answer, 1);
      EXPECT_EQ(shown(parts), "call: get\narguments: " + std::string("{\"n\": ") + Json(begin).dump() + "}\n")
          << family;
    }
  }
}

// Names of a tool that one pattern cannot hold: its values are read like those of which nothing is known.
TEST(StringMarks, ManyNamesAreReadOneWay) {
  const CallForm& form = *find_call_form("glm");
  Json::Object properties;
  for (int i = 0; i < 3000; ++i)
    properties.push_back({"parameter_" + std::to_string(i), Json::Object{{"type", "string"}}});
  const Json many = Json::Object{{"type", "object"}, {"properties", properties}};
  auto rules = std::make_shared<CallRules>(*rules_of(form));
  rules->kinds = {ArgumentKinds(many)};
  const std::string begin = "<tool_call>get\n<arg_key>parameter_7</arg_key>\n<arg_value>",
                    end = "</arg_value>\n</tool_call>", inside = "[\"</arg_value>\"]";
  const CallableTool tools[] = {{"get", any_arguments(form, rules->kinds[0])}};
  const auto made = compile_structural_tag(call_tag(form, tools, {.required = true}), {}, {});
  ASSERT_TRUE(made) << made.error().message;
  for (const std::string& value : {std::string("x"), inside}) {
    EXPECT_TRUE(takes(*made, begin + value + end));
    const auto parts = read_in_pieces(AnswerParser(Kind::none, false, rules), begin + value + end, 1);
    EXPECT_EQ(shown(parts), "call: get\narguments: {\"parameter_7\": " + Json(value).dump() + "}\n");
  }
  EXPECT_FALSE(takes(*made, begin + "[\"</arg_value>\n</tool_call>"));
}

// Of a value that is cut off, too, what is told does not depend on the cuts.
TEST(StringMarks, ListsThatAreNoneEndAtTheFirstMark) {
  const CallForm& form = *find_call_form("glm");
  const auto read = [&](const std::string& value) {
    const std::string text = "<tool_call>get\n<arg_key>u</arg_key>\n<arg_value>" + value + "</arg_value>\n</tool_call>";
    return shown(read_in_pieces(AnswerParser(Kind::none, false, rules_of(form)), text, 1));
  };
  const auto told = [](const std::string& json) { return "call: get\narguments: {\"u\": " + json + "}\n"; };
  EXPECT_EQ(read("[\"</arg_value>\"]"), told("[\"</arg_value>\"]"));
  EXPECT_EQ(read("[12\" pipe"), told("\"[12\\\" pipe\""));
  EXPECT_EQ(read("{'it': \"\\\"\"}"), told("\"{'it': \\\"\\\\\\\"\\\"}\""));
  EXPECT_EQ(read("\"quoted"), told("\"\\\"quoted\""));
}

}  // namespace
}  // namespace quire
