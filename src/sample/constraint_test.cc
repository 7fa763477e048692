#include "sample/constraint.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/rng.h"
#include "sample/rules.h"
#include "text/grammar/regex_grammar.h"

namespace quire {
namespace {

// Ids: 0 the end, then texts of one to three letters, a word that no grammar here has, and two ids without text.
constexpr Token kEnd = 0, kWord = 13, kMute = 14;
constexpr int kVocab = 70;  // as models pad it

std::shared_ptr<const TokenTrie> vocabulary() {
  static const auto trie =
      std::make_shared<const TokenTrie>(std::vector<std::string>{"</s>", "a", "b", "ab", "ba", "aab", "c", "1", "2",
                                                                 "12", "21", "a1", "b2", "zzz", "", ""},
                                        std::vector<Token>{kEnd}, size_t{0});
  return trie;
}

std::shared_ptr<const Constraint> matching(std::string_view pattern) {
  auto grammar = compile_regex(pattern, {});
  EXPECT_TRUE(grammar) << (grammar ? "" : grammar.error().message);
  return std::make_shared<const Constraint>(Constraint{"", "guided_regex", *grammar, vocabulary()});
}

using Rules = std::vector<std::unique_ptr<LogitsRule>>;

Rules rules_of(const SamplingParams& sampling, std::vector<Token> end_ids = {kEnd}) {
  return make_rules({sampling, {}, end_ids, kVocab});
}
Rules rules_of(std::string_view pattern, std::vector<Token> end_ids = {kEnd}) {
  SamplingParams sampling;
  sampling.constraint = matching(pattern);
  return rules_of(sampling, std::move(end_ids));
}

std::vector<Token> allowed(const Rules& rules) {
  LogitEdits edits;
  for (const auto& rule : rules) rule->edits(edits);
  std::vector<Token> out;
  for (Token id = 0; id < kVocab; ++id) {
    const auto i = static_cast<size_t>(id);
    if (i / 32 < edits.bitmask.size() && (edits.bitmask[i / 32] >> (i % 32) & 1U) != 0) out.push_back(id);
  }
  return out;
}

void accept(const Rules& rules, std::initializer_list<Token> ids) {
  for (const Token id : ids) {
    for (const auto& rule : rules) rule->accept(id);
  }
}

std::string error_of(const Rules& rules) {
  try {
    allowed(rules);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

using Ids = std::vector<Token>;

TEST(Constraint, OnlyWhatTheGrammarTakesMayFollow) {
  const Rules rules = rules_of("a(b|1)[12]*");
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(allowed(rules), (Ids{1, 3, 11}));
  accept(rules, {1});
  EXPECT_EQ(allowed(rules), (Ids{2, 7, 9, 12}));
  accept(rules, {12});
  EXPECT_EQ(allowed(rules), (Ids{kEnd, 7, 8, 9, 10}));
}

TEST(Constraint, RollbackIsExact) {
  Rng rng(3);
  for (int round = 0; round < 100; ++round) {
    const char* pattern = round % 2 == 0 ? "(a|b|ab2?)*12(c|1{1,3})*" : "(aab|ba){0,4}[12c]*";
    const Rules rules = rules_of(pattern);
    Ids answer;
    for (int i = 0; i < 12; ++i) {
      const auto n_back = static_cast<int>(rng.between(0, static_cast<int64_t>(answer.size())));
      for (const auto& rule : rules) rule->rollback(n_back);
      answer.resize(answer.size() - static_cast<size_t>(n_back));
      for (int64_t n = rng.between(0, 5); n > 0; --n) {
        Ids next = allowed(rules);
        std::erase(next, kEnd);
        if (next.empty()) break;
        answer.push_back(next[static_cast<size_t>(rng.between(0, static_cast<int64_t>(next.size()) - 1))]);
        accept(rules, {answer.back()});
      }
      const Rules fresh = rules_of(pattern);
      for (const Token id : answer) accept(fresh, {id});
      ASSERT_EQ(allowed(rules), allowed(fresh)) << "round " << round;
    }
  }
}

TEST(Constraint, RulesTogetherMayForbidEverything) {
  SamplingParams sampling;
  sampling.constraint = matching("a[12]");
  EXPECT_FALSE(forbid_everything(rules_of(sampling)));
  sampling.bad_words = {{1}};
  EXPECT_FALSE(forbid_everything(rules_of(sampling))) << "a1 is left";
  sampling.bad_words = {{1}, {11}};
  EXPECT_TRUE(forbid_everything(rules_of(sampling)));
  sampling.bad_words = {};
  sampling.allowed_ids = std::vector<Token>{2, 6};
  EXPECT_TRUE(forbid_everything(rules_of(sampling)));
  sampling.constraint = nullptr;
  EXPECT_FALSE(forbid_everything(rules_of(sampling)));
  EXPECT_FALSE(forbid_everything({})) << "what no rule forbids";
}

TEST(Constraint, WhatMayNotComeIsNotTaken) {
  const Rules rules = rules_of("ab*");
  accept(rules, {1});
  for (const Token id : {Token{1}, Token{6}, kWord, kMute, Token{99}, Token{-1}}) {
    EXPECT_THROW(accept(rules, {id}), std::runtime_error) << id;
    EXPECT_EQ(allowed(rules), (Ids{kEnd, 2})) << "nothing has changed";
  }
  try {
    accept(rules, {6});
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "guided_regex: grammar: token 6 may not come here");
  }
}

TEST(Constraint, StopIdsComeWhenTheTextMayEndAndNeverBefore) {
  const Rules rules = rules_of("(ab|c)*1", {kEnd, 6, kMute, 500});
  EXPECT_EQ(allowed(rules), (Ids{1, 3, 7})) << "c would end it before it is whole";
  accept(rules, {7});
  EXPECT_EQ(allowed(rules), (Ids{kEnd, 6, kMute}));
  EXPECT_EQ(
      error_of(rules_of("c", {6})),
      "the request's own rules end the answer: guided_regex: nothing may follow: the vocabulary lacks what the grammar "
      "wants, or it is a stop id");
}

TEST(Constraint, MinTokensGivesWayToTheGrammar) {
  SamplingParams sampling;
  sampling.min_tokens = 3;
  sampling.constraint = matching("a*");
  const Rules rules = rules_of(sampling);
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(allowed(rules), (Ids{1}));
  accept(rules, {1, 1, 1});
  EXPECT_EQ(allowed(rules), (Ids{kEnd, 1}));
  sampling.constraint = matching("a");
  const Rules whole = rules_of(sampling);
  accept(whole, {1});
  EXPECT_EQ(allowed(whole), (Ids{kEnd})) << "after one token nothing else may come";
}

TEST(Constraint, OtherRulesForbidMore) {
  SamplingParams sampling;
  sampling.constraint = matching("[abc]*");
  sampling.allowed_ids = {2, 6, kWord};
  sampling.bad_words = {{6}};
  const Rules rules = rules_of(sampling);
  EXPECT_EQ(allowed(rules), (Ids{2, 6})) << "as far as the mask goes";
  EXPECT_EQ(forbidding_fields(sampling), "guided_regex, allowed_token_ids, bad_words");
  EXPECT_EQ(forbidding_fields({}), "");
}

TEST(Constraint, NothingThatMayFollowIsAnError) {
  const Rules rules = rules_of("ax");
  EXPECT_EQ(allowed(rules), (Ids{1}));
  accept(rules, {1});
  EXPECT_EQ(
      error_of(rules),
      "the request's own rules end the answer: guided_regex: nothing may follow: the vocabulary lacks what the grammar "
      "wants, or it is a stop id");
}

}  // namespace
}  // namespace quire
