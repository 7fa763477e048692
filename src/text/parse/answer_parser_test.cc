// Answers of thoughts, text and calls: what a reader of thoughts takes, and what a reader of calls gets of it.
#include "text/parse/answer_parser.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sanitized.h"
#include "text/parse/call_testing.h"
#include "text/parse/tool_format.h"

namespace quire {
namespace {

std::shared_ptr<const CallRules> rules_of(const char* family) {
  return std::make_shared<const CallRules>(CallRules{find_call_form(family), {"get"}, false, {}});
}

TEST(AnswerParser, MessagesToFunctionsAreCalls) {
  const std::string thought = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant";
  const std::string json = "<|message|>{\"city\": \"<|x\"}<|call|>";
  for (const std::string& header : {std::string("<|channel|>commentary to=functions.get <|constrain|>json"),
                                    std::string("<|channel|>commentary to=functions.get"),
                                    std::string(" to=functions.get<|channel|>commentary json")}) {
    for (const size_t cut : {1U, 3U, 1000U}) {
      const AnswerParts out = read_in_pieces(AnswerParser(ReasoningForm::Kind::channels, false, rules_of("harmony")),
                                             thought + header + json, cut);
      EXPECT_EQ(shown(out), "reasoning: Let me see.\ncall: get\narguments: {\"city\": \"<|x\"}\n") << header;
    }
  }
  AnswerParser without(ReasoningForm::Kind::channels, false, nullptr);
  AnswerParts out;
  without.push(thought + "<|channel|>commentary to=functions.get" + json, out);
  without.finish(out);
  EXPECT_FALSE(out.has(PartKind::text)) << "nobody asked for calls";
}

TEST(AnswerParser, ReasoningComesBeforeCalls) {
  AnswerParser parser(ReasoningForm::Kind::think, true, rules_of("hermes"));
  AnswerParts out;
  parser.push("I <tool_call>? </think>\n\n<tool_call>{\"name\":\"get\"}</tool_call>", out);
  parser.finish(out);
  EXPECT_EQ(shown(out), "reasoning: I <tool_call>?\ncall: get\narguments: {}\n");
}

// Pieces of messages, sections and lists of calls in random order: what comes out does not depend on the cuts, and of
// what a reader puts in front of a message nothing is shown.
TEST(AnswerParser, DependsOnTheTextNotOnItsCuts) {
  using Kind = ReasoningForm::Kind;
  struct Family {
    const char* name;
    Kind kind;
    std::vector<std::string> pieces;
  };
  const Family families[] = {
      {"muse",
       Kind::muse,
       {" to=get<|message|>", " to=user<|message|>", "<|eom|><|start|>assistant to=get<|message|>", "<|eom|>", "<|st",
        "<atem:function_calls>\n<atem:invoke name=\"", "<atem:function_calls>\n<atem:invoke name=\"get\">\n",
        "get\">\n", "<atem:parameter name=\"s\">", "</atem:parameter>", "</atem:invoke>", "\n</atem:function_calls>",
        "Hm", " "}},
      {"kimi_k3",
       Kind::kimi,
       {"<|open|>tools<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|open|>call tool=\"",
        "<|open|>call tool=\"get\" index=\"1\"<|sep|>", "get\" index=\"1\"<|sep|>", "<|close|>call<|sep|>",
        "<|close|>tools<|sep|>", "Hm", " ", "<|"}},
      {"gigachat3",
       Kind::none,
       {"<|message_sep|>", "\n\nfunction call<|role_sep|>\n", "function call<|role_sep|>",
        "{\"name\": \"get\", \"arguments\": {}}", "Hm", " ", "<|"}},
      {"command_r",
       Kind::command,
       {"Action:\n```json\n[\n    ", "{\"tool_name\": \"directly_answer\", \"parameters\": {}}",
        "{\"tool_name\": \"get\", \"parameters\": {}}", ",\n    ", "\n]```", "<|START_RESPONSE|>", "Hm", " ", "<|"}}};
  Rng rng(11);
  for (const Family& family : families) {
    const auto rules = rules_of(family.name);
    int n_calls = 0;
    for (int round = 0; round < fewer_if_sanitized(12'000); ++round) {
      std::string text;
      for (int64_t n = rng.between(0, 14); n > 0; --n)
        text += family.pieces[static_cast<size_t>(rng.between(0, std::ssize(family.pieces) - 1))];
      const AnswerParts whole = read_in_pieces(AnswerParser(family.kind, false, rules), text, text.size() + 1);
      const auto cut = static_cast<size_t>(rng.between(1, 9));
      ASSERT_EQ(shown(read_in_pieces(AnswerParser(family.kind, false, rules), text, cut)), shown(whole)) << text << cut;
      ASSERT_EQ(whole.joined(PartKind::text).find(kToolMessage), std::string::npos) << text;
      n_calls += whole.has(PartKind::call) ? 1 : 0;
    }
    EXPECT_GE(n_calls, fewer_if_sanitized(10)) << family.name;
  }
}

}  // namespace
}  // namespace quire
