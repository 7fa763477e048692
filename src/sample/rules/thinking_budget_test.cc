// The rule behind thinking_token_budget: where thoughts begin, what counts, what ends them, and that it goes back.
#include "sample/thinking_budget.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "sample/rules.h"

namespace quire {
namespace {

// 0 ends; 1, 2 are the marks where they are tokens; the rest spells.
const std::vector<std::string> kTexts = {"",   "<think>", "</think>", " ", "\n", "<",  "/",
                                         "th", "ink",     ">",        "a", "</", "<th"};
constexpr Token kOpen = 1, kClose = 2;

std::shared_ptr<ThinkingBudget> budget(int n, bool control) {
  auto out = std::make_shared<ThinkingBudget>();
  std::vector<std::string> texts = kTexts;
  if (control) texts[kOpen] = texts[kClose] = "";
  out->n_tokens = n;
  out->field = "thinking_token_budget";
  out->open = "<think>";
  out->close = "</think>";
  if (control) out->open_id = kOpen, out->close_id = kClose;
  out->closing = {kClose};
  out->vocabulary = std::make_shared<const TokenTrie>(texts, std::vector<Token>{0}, texts.size());
  return out;
}

std::unique_ptr<LogitsRule> rule_of(std::shared_ptr<const ThinkingBudget> budget, const std::vector<Token>& prompt) {
  SamplingParams sampling;
  sampling.thinking = std::move(budget);
  auto rules = make_rules({sampling, prompt, {}, static_cast<int>(kTexts.size())});
  EXPECT_EQ(rules.size(), 1U);
  return std::move(rules.front());
}

// The only token that may come; −1: any.
Token wanted(const LogitsRule& rule) {
  LogitEdits edits;
  rule.edits(edits);
  EXPECT_TRUE(edits.sparse.empty());
  if (edits.bitmask.empty()) return -1;
  EXPECT_EQ(edits.bitmask.size(), 1U);
  Token found = -1;
  for (Token id = 0; id < 32; ++id) {
    if ((edits.bitmask[0] >> id & 1U) == 0) continue;
    EXPECT_EQ(found, -1);
    found = id;
  }
  return found;
}

// What is wanted behind each of the tokens, before the first too.
std::vector<Token> all_wanted(LogitsRule& rule, const std::vector<Token>& tokens) {
  std::vector<Token> out = {wanted(rule)};
  for (const Token id : tokens) {
    rule.accept(id);
    out.push_back(wanted(rule));
  }
  return out;
}

using Tokens = std::vector<Token>;

TEST(ThinkingBudget, EndsThoughtsThatThePromptHasOpened) {
  for (const bool control : {false, true}) {
    const auto rule = rule_of(budget(3, control), {10, kOpen, 4});
    EXPECT_EQ(all_wanted(*rule, {10, 10, 10, kClose, 10, 10, 10, 10}), (Tokens{-1, -1, -1, 2, -1, -1, -1, -1, -1}));
  }
}

TEST(ThinkingBudget, EndsThoughtsThatTheAnswerBeginsWith) {
  for (const bool control : {false, true}) {
    const auto rule = rule_of(budget(2, control), {10, 10});
    EXPECT_EQ(all_wanted(*rule, {4, kOpen, 10, 10, kClose, 10}), (Tokens{-1, -1, -1, -1, 2, -1, -1}));
  }
}

TEST(ThinkingBudget, NothingOfAnAnswerThatDoesNotBeginSo) {
  for (const bool control : {false, true}) {
    const auto rule = rule_of(budget(0, control), {kOpen, kClose, 4});
    EXPECT_EQ(all_wanted(*rule, {3, 10, kOpen, 10, 10}), Tokens(6, -1));
  }
}

TEST(ThinkingBudget, ThoughtsThatEndByThemselvesAreLeftAlone) {
  for (const bool control : {false, true}) {
    const auto rule = rule_of(budget(2, control), {kOpen});
    EXPECT_EQ(all_wanted(*rule, {10, kClose, 10, 10, 10}), Tokens(6, -1));
  }
}

TEST(ThinkingBudget, ABudgetOfNothingEndsThemAtOnce) {
  const auto rule = rule_of(budget(0, true), {kOpen});
  EXPECT_EQ(all_wanted(*rule, {kClose, 10}), (Tokens{kClose, -1, -1}));
}

TEST(ThinkingBudget, MarksAsText) {
  auto by_text = budget(3, false);
  by_text->closing = {11, 7, 8, 9};  // "</" "th" "ink" ">"
  const auto rule = rule_of(by_text, {10});
  // Opened by three tokens, closed by four that have to come.
  EXPECT_EQ(all_wanted(*rule, {12, 8, 9, 10, 10, 10, 11, 7, 8, 9, 10}),
            (Tokens{-1, -1, -1, -1, -1, -1, 11, 7, 8, 9, -1, -1}));
  // The mark spelled otherwise, with a false start: "<" "</" "th" "ink" ">".
  by_text = budget(9, false);
  const auto itself = rule_of(by_text, {5, 7, 8, 9, 4});
  EXPECT_EQ(all_wanted(*itself, {5, 11, 7, 8, 9, 10, 10, 10, 10, 10, 10}), Tokens(12, -1));
}

TEST(ThinkingBudget, WhatTextSpellsIsNoControlToken) {
  const auto rule = rule_of(budget(2, true), {kOpen});
  EXPECT_EQ(all_wanted(*rule, {11, 7, 8, 9, kClose, 10}), (Tokens{-1, -1, 2, 2, 2, -1, -1}));
}

TEST(ThinkingBudget, GoesBackExactly) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const auto made = budget(static_cast<int>(rng.between(0, 4)), seed % 2 == 0);
    const Tokens prompt = seed % 3 == 0 ? Tokens{kOpen} : Tokens{10};
    const auto rule = rule_of(made, prompt);
    Tokens tokens;
    for (int step = 0; step < 200; ++step) {
      const auto back = static_cast<size_t>(rng.between(0, 3));
      if (back <= tokens.size()) {
        rule->rollback(static_cast<int>(back));
        tokens.resize(tokens.size() - back);
      }
      for (int64_t n = rng.between(0, 4); n > 0; --n) {
        const Token next = wanted(*rule);
        tokens.push_back(next >= 0 && rng.between(0, 2) > 0 ? next : static_cast<Token>(rng.between(1, 12)));
        rule->accept(tokens.back());
      }
      const auto fresh = rule_of(made, prompt);
      ASSERT_EQ(all_wanted(*fresh, tokens).back(), wanted(*rule)) << "seed " << seed;
    }
  }
}

TEST(ThinkingBudget, IsNamedWhereNothingIsLeft) {
  SamplingParams sampling;
  sampling.thinking = budget(1, true);
  sampling.bad_words = {{kClose}};
  EXPECT_EQ(forbidding_fields(sampling), "thinking_token_budget, bad_words");
}

}  // namespace
}  // namespace quire
