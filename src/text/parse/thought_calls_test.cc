// Calls in thoughts that nothing has ended: at the end of an answer they are calls, anywhere else thoughts.
#include "text/parse/thought_calls.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

std::shared_ptr<const CallRules> rules_of(const char* family, bool only_one = false) {
  auto rules = std::make_shared<CallRules>();
  rules->form = find_call_form(family);
  rules->names = {"get", "search"};
  rules->only_one = only_one;
  rules->in_thoughts = true;
  return rules;
}

std::string parts_of(const std::shared_ptr<const CallRules>& rules, std::string_view text, size_t cut) {
  return shown(read_in_pieces(AnswerParser(Kind::think, true, rules), text, cut));
}

void expect_parts(const char* family, std::string_view text, const std::string& wanted, bool only_one = false) {
  for (size_t cut = 1; cut <= text.size() + 1; ++cut)
    EXPECT_EQ(parts_of(rules_of(family, only_one), text, cut), wanted) << family << ": " << text << " cut at " << cut;
}

const std::string kGet = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1}}\n</tool_call>";
const std::string kSearch = "<tool_call>\n{\"name\": \"search\", \"arguments\": {}}\n</tool_call>";

TEST(ThoughtCalls, EndAnAnswer) {
  const std::string get = "call: get\narguments: {\"a\": 1}\n", search = "call: search\narguments: {}\n";
  expect_parts("hermes", kGet, get);
  expect_parts("hermes", "I have to look.\n" + kGet + "\n" + kSearch + " \n",
               "reasoning: I have to look.\n" + get + search);
  expect_parts("hermes", "I look." + kGet + kSearch, "reasoning: I look.\n" + get, true);
  expect_parts("hermes", "A " + kGet + " no, " + kSearch, "reasoning: A " + kGet + " no,\n" + search);
  expect_parts("glm", "A.\n<tool_call>get\n</tool_call>", "reasoning: A.\ncall: get\narguments: {}\n");
  expect_parts("qwen_coder", "A.\n<function=get>\n</function>\n</tool_call>",
               "reasoning: A.\ncall: get\narguments: {}\n");
}

TEST(ThoughtCalls, AreThoughtsElsewhere) {
  expect_parts("hermes", "I could " + kGet + " now.", "reasoning: I could " + kGet + " now.\n");
  expect_parts("hermes", "I could " + kGet + "</think>Yes.", "reasoning: I could " + kGet + "\ntext: Yes.\n");
  expect_parts("hermes", "I could " + kGet + "</think>", "reasoning: I could " + kGet + "\n");
  expect_parts("hermes", kGet + "</think>\n\n" + kSearch, "reasoning: " + kGet + "\ncall: search\narguments: {}\n");
  const std::string cut_off = kGet.substr(0, kGet.find(" 1"));
  expect_parts("hermes", "A " + cut_off, "reasoning: A " + cut_off + "\n");
  expect_parts("hermes", "A " + kGet + " " + cut_off, "reasoning: A " + kGet + " " + cut_off + "\n");
  const std::string other = "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>";
  expect_parts("hermes", "A " + other, "reasoning: A " + other + "\n");
  expect_parts("hermes", "a < b, <tool", "reasoning: a < b, <tool\n");
  const std::string bare = R"({"name": "get", "parameters": {}})";
  expect_parts("llama3_json", bare, "reasoning: " + bare + "\n");
  EXPECT_EQ(parts_of(nullptr, kGet, 3), "reasoning: " + kGet + "\n");
  CallRules held = *rules_of("hermes");
  held.in_thoughts = false;
  EXPECT_EQ(parts_of(std::make_shared<const CallRules>(held), kGet, 3), "reasoning: " + kGet + "\n");
}

TEST(ThoughtCalls, DependOnTheTextNotOnItsCuts) {
  const std::string pieces[] = {kGet, kSearch, "<tool_call>",          "</think>", " ", "\n",
                                "a",  "<",     "{\"name\": \"get\", ", "}"};
  Rng rng(3);
  const auto rules = rules_of("hermes");
  for (int round = 0; round < 500; ++round) {
    std::string text;
    const int64_t n = rng.between(0, 9);
    for (int64_t i = 0; i < n; ++i) text += pieces[static_cast<size_t>(rng.between(0, std::ssize(pieces) - 1))];
    const std::string whole = parts_of(rules, text, text.size() + 1);
    EXPECT_EQ(parts_of(rules, text, static_cast<size_t>(rng.between(1, 9))), whole) << text;
  }
}

}  // namespace
}  // namespace quire
