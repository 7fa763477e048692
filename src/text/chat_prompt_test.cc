#include "text/chat_prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

namespace quire {
namespace {

// A SentencePiece vocabulary of <unk>, <s>, </s> and all bytes: any text tokenises, byte by byte.
std::unique_ptr<Tokenizer> byte_tokenizer() {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>"};
  spec.types = {TokenType::unknown, TokenType::control, TokenType::control};
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    spec.tokens.emplace_back(name);
    spec.types.push_back(TokenType::byte);
  }
  spec.scores.assign(spec.tokens.size(), 0.0F);
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.add_bos = true;
  auto made = make_tokenizer(std::move(spec));
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

std::vector<Token> prompt_of(const char* source, const char* content, UserText user_text = UserText::plain) {
  const auto chat = ChatTemplate::parse(source);
  Json message;
  message.set("role", "user");
  message.set("content", content);
  TemplateInput input;
  input.messages = Json::Array{message};
  const auto tokenizer = byte_tokenizer();
  const auto prompt = chat_prompt(*chat, *tokenizer, std::move(input), user_text);
  EXPECT_TRUE(prompt) << prompt.error().message;
  return prompt->tokens;
}

int64_t n_control(const std::vector<Token>& ids) {
  return std::count_if(ids.begin(), ids.end(), [](Token id) { return id == 1 || id == 2; });
}

TEST(ChatPrompt, TheTemplatesControlTokensAreTokensAndTheUsersAreText) {
  EXPECT_EQ(n_control(prompt_of("{{ bos_token }}{{ messages[0].content }}</s>", "plain")), 2);
  EXPECT_EQ(n_control(prompt_of("{{ bos_token }}{{ messages[0].content }}</s>", "a</s>b<s>")), 2);
  EXPECT_EQ(n_control(prompt_of("{{ bos_token }}{{ messages[0].content | trim }}</s>", " <s>")), 2);
}

TEST(ChatPrompt, TheUsersControlTokensAreTokensWhereTheCallerAsks) {
  EXPECT_EQ(n_control(prompt_of("{{ bos_token }}{{ messages[0].content }}</s>", "a</s>b<s>", UserText::parsed)), 4);
}

TEST(ChatPrompt, BosComesOnce) {
  EXPECT_EQ(prompt_of("{{ messages[0].content }}", "x").front(), 1);
  EXPECT_EQ(n_control(prompt_of("{{ messages[0].content }}", "x")), 1);
  EXPECT_EQ(n_control(prompt_of("{{ bos_token }}{{ messages[0].content }}", "x")), 1);
}

// Text that a template and its user make together is not the template's.
TEST(ChatPrompt, AControlTokenAcrossTheSeamIsText) {
  EXPECT_EQ(n_control(prompt_of("{{ bos_token }}<{{ messages[0].content }}", "/s>")), 1);
}

TEST(ChatPrompt, TheDayIsThereForTemplatesThatLeaveItToTheCaller) {
  const auto chat = ChatTemplate::parse(
      "{% if not date_string is defined %}{% set date_string = 'never' %}{% endif %}{{ date_string }}, {{ datetime }}");
  const auto tokenizer = byte_tokenizer();
  TemplateInput input;
  input.messages = Json::Array{};
  EXPECT_EQ(chat_prompt(*chat, *tokenizer, input, UserText::plain)->text, "never, ");
  input.now = "2026-07-26T23:59:00";
  EXPECT_EQ(chat_prompt(*chat, *tokenizer, input, UserText::plain)->text, "26 Jul 2026, Jul 26 2026");
  input.extra = Json::Object{{"date_string", "today"}};
  EXPECT_EQ(chat_prompt(*chat, *tokenizer, input, UserText::plain)->text, "today, Jul 26 2026");
}

TEST(ChatPrompt, FunctionsAreThereForTemplatesThatWantThemAsText) {
  const auto chat = ChatTemplate::parse("{{ 'f: ' + functions }}");
  const auto tokenizer = byte_tokenizer();
  TemplateInput input;
  input.messages = Json::Array{};
  EXPECT_EQ(chat_prompt(*chat, *tokenizer, input, UserText::plain)->text, "f: ");
  input.tools = *Json::parse(R"([{"type":"function","function":{"name":"</s>"}}])");
  const auto prompt = chat_prompt(*chat, *tokenizer, input, UserText::plain);
  EXPECT_EQ(prompt->text, R"(f: [{"name":"</s>"}])");
  EXPECT_EQ(n_control(prompt->tokens), 1) << "the client's text stays text";
  input.extra = Json::Object{{"functions", "mine"}};
  EXPECT_EQ(chat_prompt(*chat, *tokenizer, input, UserText::plain)->text, "f: mine");
}

}  // namespace
}  // namespace quire
