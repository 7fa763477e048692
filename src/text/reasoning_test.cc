#include "text/reasoning.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/tokenizer.h"

namespace quire {
namespace {

using Kind = ReasoningForm::Kind;

struct Parts {
  std::string reasoning, content;
  bool operator==(const Parts&) const = default;
};

Parts split(Kind kind, bool inside, std::string_view text, size_t cut) {
  ReasoningSplitter splitter(kind, inside);
  AnswerParts out;
  for (size_t at = 0; at < text.size(); at += cut) splitter.push(text.substr(at, cut), out);
  splitter.finish(out);
  return {out.joined(PartKind::reasoning), out.joined(PartKind::text)};
}

void expect_parts(Kind kind, bool inside, std::string_view text, const Parts& wanted) {
  for (size_t cut = 1; cut <= text.size() + 1; ++cut) {
    const Parts got = split(kind, inside, text, cut);
    EXPECT_EQ(got.reasoning, wanted.reasoning) << text << " cut at " << cut;
    EXPECT_EQ(got.content, wanted.content) << text << " cut at " << cut;
  }
}

TEST(ReasoningSplitter, TakesThinkingApart) {
  expect_parts(Kind::think, false, "<think>\nHm, a<b.\n\n</think>\n\nYes.\n", {"Hm, a<b.", "Yes.\n"});
  expect_parts(Kind::think, false, "\n<think></think>Yes", {"", "Yes"});
  expect_parts(Kind::think, true, "one </thin two</think>  three <think>", {"one </thin two", "three <think>"});
  expect_parts(Kind::think, true, "never closed </thi", {"never closed </thi", ""});
  expect_parts(Kind::think, false, "No thought. <think>x</think>", {"", "No thought. <think>x</think>"});
  expect_parts(Kind::think, false, "  <thinking>", {"", "  <thinking>"});
  expect_parts(Kind::think, false, "  ", {"", "  "});
  expect_parts(Kind::none, false, "<think>x</think>y", {"", "<think>x</think>y"});
}

TEST(ReasoningSplitter, TakesCommandRsMarksApart) {
  expect_parts(Kind::command, false, "<|START_THINKING|>I look.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
               {"I look.", "Yes."});
  expect_parts(Kind::command, true, "I look.<|END_THINKING|>\n<|START_RESPONSE|> Yes <|b<|END_RESPONSE|>",
               {"I look.", " Yes <|b"});
  expect_parts(Kind::command, false, "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", {"", "Yes."});
  expect_parts(Kind::command, false, "Yes, <think>.", {"", "Yes, <think>."});
  expect_parts(Kind::command, true, "Call.<|END_THINKING|><|START_ACTION|>[]<|END_ACTION|>",
               {"Call.", "<|START_ACTION|>[]<|END_ACTION|>"});
  expect_parts(Kind::command, true, "<|START_RESPONSE|> is no end <|END_THINK",
               {"<|START_RESPONSE|> is no end <|END_THINK", ""});
}

TEST(ReasoningSplitter, TakesGemmasMarksApart) {
  expect_parts(Kind::gemma, false, "<|channel>thought\nI <look>.\n<channel|>Yes.", {"I <look>.", "Yes."});
  expect_parts(Kind::gemma, false, "<|channel>thought\n<channel|>Yes, <|channel>thought.",
               {"", "Yes, <|channel>thought."});
  expect_parts(Kind::gemma, false, R"({"s":"<|channel>thought x<channel|>"})",
               {"", R"({"s":"<|channel>thought x<channel|>"})"});
  expect_parts(Kind::gemma, false, "<channel|>Yes <|channel>no.", {"", "<channel|>Yes <|channel>no."});
  expect_parts(Kind::gemma, true, "I look.<channel|>\nYes.", {"I look.", "Yes."});
  expect_parts(Kind::gemma, false, "<|channel>other", {"", "<|channel>other"});
}

TEST(ReasoningSplitter, TakesOtherMarksApart) {
  expect_parts(Kind::command_text, true, "I look.<|END_THINKING|>\n<|START_TEXT|>Yes.<|END_TEXT|>",
               {"I look.", "Yes."});
  expect_parts(Kind::command_text, false, "<|START_RESPONSE|>Yes", {"", "<|START_RESPONSE|>Yes"});
  expect_parts(Kind::seed, false, "<seed:think>A <b>.</seed:think>\n<seed:think>", {"A <b>.", "<seed:think>"});
  expect_parts(Kind::minimax, false, "<mm:think>A.</mm:think>B.", {"A.", "B."});
  expect_parts(Kind::minimax, false, "</mm:think>B.</mm:think>", {"", "B.</mm:think>"});
  expect_parts(Kind::mistral, false, "[THINK]A [0] [/THIN.[/THINK]B [/THINK]", {"A [0] [/THIN.", "B [/THINK]"});
  expect_parts(Kind::apriel, true, "A [BEGIN] .\n[BEGIN FINAL RESPONSE]\nB.", {"A [BEGIN] .", "B."});
  expect_parts(Kind::apriel, true, "A.\n[BEGIN FINAL RESPONSE]\nB.[END FINAL RESPONSE]", {"A.", "B."});
}

TEST(ReasoningSplitter, TakesMessagesApartByTheirRecipients) {
  const std::string next = "<|eom|><|start|>assistant";
  expect_parts(Kind::muse, false, " to=self<|message|> A <b>. " + next + " to=user<|message|>B.<|eot|>",
               {"A <b>.", "B."});
  expect_parts(Kind::muse, false, " to=user<|message|>B <|x" + next + "<|message|> C", {"", "B <|x C"});
  expect_parts(Kind::muse, false, " to=other<|message|>A." + next + " to=user<|message|>B.", {"A.", "B."});
  expect_parts(Kind::muse, false, "B.", {"", "B."});
  expect_parts(Kind::muse, false, " to the user", {"", " to the user"});
}

TEST(ReasoningSplitter, TakesSectionsApart) {
  const std::string response = "<|open|>response<|sep|>", end = "<|close|>response<|sep|><|close|>message<|sep|>";
  expect_parts(Kind::kimi, true, "A <|sep|>.<|close|>think<|sep|>" + response + "B." + end, {"A <|sep|>.", "B."});
  expect_parts(Kind::kimi, false, "<|open|>think<|sep|>A.<|close|>think<|sep|>" + response + "B.", {"A.", "B."});
  expect_parts(Kind::kimi, false, response + "The response, and a message." + end,
               {"", "The response, and a message."});
  expect_parts(Kind::kimi, false, "B." + end, {"", "B."});
  expect_parts(Kind::kimi, true, "A <|close|>th<|close|>think<|sep|>B", {"A <|close|>th", "B"});
  expect_parts(Kind::kimi, false, "B <|open|>tools<|open|><|close|>response<|<|close|>response<|sep|>",
               {"", "B <|open|>tools<|open|><|close|>response<|"});
}

TEST(ReasoningSplitter, TakesChannelsApart) {
  expect_parts(Kind::channels, false,
               "<|channel|>analysis<|message|>The user <asks>. <|end|><|start|>assistant<|channel|>final"
               "<|message|> It is 4.<|return|>",
               {"The user <asks>.", " It is 4."});
  expect_parts(Kind::channels, false, "<|start|>assistant<|message|>plain", {"", "plain"});
  expect_parts(Kind::channels, false, "just text", {"", "just text"});
  expect_parts(Kind::channels, false, " to the user", {"", " to the user"});
  expect_parts(Kind::channels, false, " to=be, or not", {"", " to=be, or not"});
  const std::string said = " to=" + std::string(3000, 'b');
  expect_parts(Kind::channels, false, said, {"", said});
  expect_parts(Kind::channels, false, " to=python<|channel|>commentary<|message|>1 + 1<|call|>", {"1 + 1", ""});
  expect_parts(Kind::channels, false,
               "<|channel|>analysis<|message|>A.<|end|><|start|>assistant<|channel|>analysis<|message|> B. ",
               {"A.\nB.", ""});
}

TEST(ReasoningSplitter, DependsOnTheTextNotOnItsCuts) {
  static constexpr std::string_view kPieces[] = {"<think>",
                                                 "</think>",
                                                 "<",
                                                 " ",
                                                 "\n",
                                                 "a",
                                                 "<|channel|>",
                                                 "<|message|>",
                                                 "analysis",
                                                 "<|start|>",
                                                 "th<",
                                                 "|>",
                                                 "<|START_THINKING|>",
                                                 "<|END_THINKING|>",
                                                 "<|START_RESPONSE|>",
                                                 "<|END_RESPONSE|>",
                                                 "<|channel>thought",
                                                 "<channel|>",
                                                 "<|START_TEXT|>",
                                                 "[THINK]",
                                                 "[/THINK]",
                                                 "<|eom|>",
                                                 "to=self",
                                                 "<|open|>",
                                                 "<|close|>",
                                                 "response",
                                                 "think<|sep|>",
                                                 "<|sep|>",
                                                 " to=",
                                                 "["};
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    const int64_t n = rng.between(0, 14);
    for (int64_t i = 0; i < n; ++i) text += kPieces[static_cast<size_t>(rng.between(0, std::ssize(kPieces) - 1))];
    for (const Kind kind : {Kind::think, Kind::command, Kind::gemma, Kind::channels, Kind::command_text, Kind::mistral,
                            Kind::kimi, Kind::muse}) {
      const bool inside = !thinks_in_messages(kind) && rng.between(0, 1) == 1;
      const Parts whole = split(kind, inside, text, text.size() + 1);
      const auto cut = static_cast<size_t>(rng.between(1, 7));
      EXPECT_EQ(split(kind, inside, text, cut), whole) << text << " cut at " << cut;
    }
  }
}

TEST(ReasoningForm, IsFoundInTheTemplateWhereTheVocabularyHasNoMarks) {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>", "a"};
  spec.types = {TokenType::unknown, TokenType::control, TokenType::control, TokenType::normal};
  spec.scores.assign(spec.tokens.size(), 0.0F);
  spec.unk = 0;
  auto made = make_tokenizer(std::move(spec));
  ASSERT_TRUE(made) << made.error().message;
  const auto& tokenizer = *made;
  EXPECT_EQ(find_reasoning_form(*tokenizer, "").kind, Kind::none);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "{# <think> #}").kind, Kind::none) << "one mark alone";
  EXPECT_EQ(find_reasoning_form(*tokenizer, "{{ '<think></think>' }}").kind, Kind::think);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "<seed:think></seed:think>").kind, Kind::seed);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "<mm:think></mm:think>").kind, Kind::minimax);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "[THINK][/THINK]").kind, Kind::mistral);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "Here are my reasoning steps:[BEGIN FINAL RESPONSE]").kind, Kind::apriel);
  const std::string command = "<|START_THINKING|><|END_THINKING|>";
  EXPECT_EQ(find_reasoning_form(*tokenizer, command + "<|START_TEXT|><|END_TEXT|>").kind, Kind::command_text);
  EXPECT_EQ(find_reasoning_form(*tokenizer, command).kind, Kind::command);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "<|START_THINKING|><|END_THINKING|>").kind, Kind::command);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "<|channel>thought\n<channel|>").kind, Kind::gemma);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "{{ ' to=self<|message|>' }}").kind, Kind::muse);
  EXPECT_EQ(find_reasoning_form(*tokenizer, "{{ '<|open|>' + tag }}{{ '<|close|>' + tag }}").kind, Kind::kimi);
}

TEST(ReasoningForm, OpensWhereThePromptLeftIt) {
  EXPECT_TRUE(opens_reasoning(Kind::think, "<|assistant|><think>\n"));
  EXPECT_FALSE(opens_reasoning(Kind::think, "<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens_reasoning(Kind::none, "<think>"));
  EXPECT_TRUE(opens_reasoning(Kind::command, "<|CHATBOT_TOKEN|><|START_THINKING|>"));
  EXPECT_TRUE(closes_reasoning(Kind::command, "<|START_THINKING|><|END_THINKING|>"));
  EXPECT_FALSE(closes_reasoning(Kind::command, "<think></think>"));
  EXPECT_TRUE(closes_reasoning(Kind::gemma, "<|turn>model\n<|channel>thought\n<channel|>"));
  EXPECT_TRUE(opens_reasoning(Kind::kimi, "<|open|>think<|sep|>"));
  EXPECT_TRUE(closes_reasoning(Kind::kimi, "<|open|>response<|sep|>"));
}

TEST(ReasoningForm, AnAnswerThatIsBegunStandsBehindItsMarks) {
  EXPECT_EQ(answer_lead(Kind::command, "<|START_THINKING|>"), "<|END_THINKING|><|START_RESPONSE|>");
  EXPECT_EQ(answer_lead(Kind::command, "<|START_THINKING|><|END_THINKING|>"), "<|START_RESPONSE|>");
  EXPECT_EQ(answer_lead(Kind::gemma, "<|channel>thought\n"), "<channel|>");
  EXPECT_EQ(answer_lead(Kind::gemma, "<|turn>model\n"), "");
  EXPECT_EQ(answer_lead(Kind::command_text, "<|START_THINKING|>"), "<|END_THINKING|><|START_TEXT|>");
  EXPECT_EQ(answer_lead(Kind::mistral, "[THINK]"), "[/THINK]");
  EXPECT_EQ(answer_lead(Kind::mistral, "[/INST]"), "");
  EXPECT_EQ(answer_lead(Kind::think, "<think>\n"), "\n</think>\n\n");
  EXPECT_EQ(answer_lead(Kind::kimi, "<|open|>think<|sep|>"), "<|close|>think<|sep|><|open|>response<|sep|>");
  EXPECT_EQ(answer_lead(Kind::kimi, "<|open|>response<|sep|>"), "");
  EXPECT_EQ(answer_lead(Kind::muse, "<|start|>assistant"), " to=user<|message|>");
}

}  // namespace
}  // namespace quire
