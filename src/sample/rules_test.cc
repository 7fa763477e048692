#include "sample/rules.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/count_news.h"
#include "base/rng.h"
#include "ops/sample_row.h"
#include "sample/constraint.h"
#include "sample/thinking_budget.h"

namespace quire {
namespace {

constexpr int kVocab = 70;

struct State {
  std::vector<uint32_t> bitmask;
  std::map<Token, std::vector<std::pair<float, float>>> sparse;  // per id in order
  float top_p, mu;
  bool operator==(const State&) const = default;
};

State state_of(const LogitsRule& rule) {
  LogitEdits edits;
  rule.edits(edits);
  SampleParams params;
  rule.shape(params);
  State out{edits.bitmask, {}, params.top_p, params.mirostat_mu};
  for (const Edit& e : edits.sparse) out.sparse[e.id].emplace_back(e.add, e.mul);
  return out;
}

std::vector<Token> random_tokens(Rng& rng, int n, int n_ids) {
  std::vector<Token> out(static_cast<size_t>(n));
  for (Token& t : out) t = static_cast<Token>(rng.between(0, n_ids - 1));
  return out;
}

// A token's surprise, so that every rule sees a function of the tokens.
void take(LogitsRule& rule, Token id) {
  Sampled sampled;
  sampled.token = id;
  sampled.surprise = static_cast<float>(id % 7) * 1.3F;
  rule.observe(sampled);
  rule.accept(id);
}

SamplingParams everything() {
  SamplingParams s;
  s.mirostat = 2;
  s.top_p = 0.9F;
  s.top_p_decay = 0.8F;
  s.top_p_min = 0.3F;
  s.top_p_reset_id = 2;
  s.repetition_penalty = 1.3F;
  s.presence_penalty = 0.25F;
  s.frequency_penalty = 0.5F;
  s.dry_multiplier = 0.8F;
  s.dry_breakers = {3};
  s.no_repeat_ngram_size = 3;
  s.allowed_ids = {1, 2, 3, 40};
  s.bad_words = {{1}, {2, 1}, {1, 2, 3}};
  s.min_tokens = 12;
  return s;
}

TEST(Rules, ManySequencesHoldALongListOnce) {
  SamplingParams s;
  const std::vector<Token> ids(size_t{1} << 18, 1);
  s.allowed_ids = ids;
  s.allowed_mask = mask_of(ids, 1 << 18);
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  std::vector<std::vector<std::unique_ptr<LogitsRule>>> rules;
  for (int i = 0; i < 256; ++i) rules.push_back(make_rules({s, {}, {}, 1 << 18}));
  EXPECT_LT(mallinfo2().uordblks + mallinfo2().hblkhd - before, size_t{4} << 20) << "not 256 times one MiB";
  ASSERT_EQ(rules.back().size(), 1U);
}

// So that a guess that it has no memory to follow leaves nothing behind.
TEST(Rules, AnAcceptThatThrowsLeavesTheRuleAsItWas) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  Rng rng(2);
  const std::vector<Token> prompt = random_tokens(rng, 20, 50), answer = random_tokens(rng, 200, 50);
  int n_thrown = 0;
  const std::vector<Token> ends = {7};
  SamplingParams wanted = everything();
  for (const int last_n : {-2, 16}) {
    if (last_n > 0) wanted.repeat_last_n = last_n;
    const auto rules = make_rules({wanted, prompt, ends, kVocab}), same = make_rules({wanted, prompt, ends, kVocab});
    for (size_t i = 0; i < rules.size(); ++i) {
      for (const Token id : answer) {
        for (int64_t n = 1;; ++n) {
          news_until_failure = n;
          try {
            take(*rules[i], id);
            news_until_failure = 0;
            break;
          } catch (const std::bad_alloc&) {
            ++n_thrown;
          }
          ASSERT_EQ(state_of(*rules[i]), state_of(*same[i])) << "rule " << i;
        }
        take(*same[i], id);
        ASSERT_EQ(state_of(*rules[i]), state_of(*same[i])) << "rule " << i;
      }
      for (size_t k = 0; k < answer.size(); ++k) {
        rules[i]->rollback(1);
        same[i]->rollback(1);
        ASSERT_EQ(state_of(*rules[i]), state_of(*same[i])) << "rule " << i;
      }
    }
  }
  EXPECT_GT(n_thrown, 50);
}

TEST(Rules, RollbackIsExact) {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    SamplingParams s = everything();
    if (round % 3 != 0) s.repeat_last_n = static_cast<int>(rng.between(-1, 12));
    s.dry_last_n = static_cast<int>(rng.between(-1, 20));
    const std::vector<Token> prompt = random_tokens(rng, static_cast<int>(rng.between(1, 20)), 5);
    const std::vector<Token> end_ids = {4, 200};
    const RuleContext context{s, prompt, end_ids, kVocab};
    auto rules = make_rules(context);
    std::vector<Token> answer;
    for (int i = 0; i < 12; ++i) {
      const auto n_back = static_cast<int>(rng.between(0, static_cast<int64_t>(answer.size())));
      for (auto& rule : rules) rule->rollback(n_back);
      answer.resize(answer.size() - static_cast<size_t>(n_back));
      for (const Token id : random_tokens(rng, static_cast<int>(rng.between(1, 8)), 5)) {
        for (auto& rule : rules) take(*rule, id);
        answer.push_back(id);
      }
      const auto fresh = make_rules(context);
      ASSERT_EQ(fresh.size(), rules.size());
      for (size_t r = 0; r < fresh.size(); ++r) {
        for (const Token id : answer) take(*fresh[r], id);
        ASSERT_EQ(state_of(*fresh[r]), state_of(*rules[r])) << "rule " << r << ", round " << round;
      }
    }
  }
}

TEST(Rules, EachIsMadeOnlyWhenItIsAskedFor) {
  EXPECT_TRUE(make_rules({SamplingParams{}, {}, {}, kVocab}).empty());
  const size_t n_all = Registry<LogitsRuleEntry>::get().names().size();
  SamplingParams all = everything();
  all.thinking = std::make_shared<const ThinkingBudget>(ThinkingBudget{
      .open = "<",
      .close = ">",
      .closing = {1},
      .vocabulary = std::make_shared<const TokenTrie>(std::vector<std::string>{"a"}, std::vector<Token>{}, 1)});
  EXPECT_EQ(make_rules({all, {}, std::vector<Token>{1}, kVocab}).size(), n_all - 1) << "all but the grammar";
  all.constraint = std::make_shared<const Constraint>();
  EXPECT_EQ(make_rules({all, {}, std::vector<Token>{1}, kVocab}).size(), n_all - 1) << "of which nothing is compiled";
}

std::map<Token, std::pair<float, float>> penalties(SamplingParams s,
                                                   std::vector<Token> prompt,
                                                   std::vector<Token> answer) {
  auto rules = make_rules({s, prompt, {}, kVocab});
  EXPECT_EQ(rules.size(), 1U);
  for (const Token id : answer) rules[0]->accept(id);
  std::map<Token, std::pair<float, float>> out;
  for (const auto& [id, edits] : state_of(*rules[0]).sparse) {
    EXPECT_EQ(edits.size(), 1U);
    out[id] = edits[0];
  }
  return out;
}

TEST(Rules, PenaltiesCountTheAnswerAndRepetitionThePromptToo) {
  SamplingParams s;
  s.repetition_penalty = 1.5F;
  s.presence_penalty = 0.5F;
  s.frequency_penalty = 0.25F;
  const auto got = penalties(s, {7, 7, 8}, {8, 9, 9});
  const std::map<Token, std::pair<float, float>> want = {{7, {0.0F, 1.5F}}, {8, {-0.75F, 1.5F}}, {9, {-1.0F, 1.5F}}};
  EXPECT_EQ(got, want);
}

TEST(Rules, RepeatLastNIsAWindowOverPromptAndAnswer) {
  SamplingParams s;
  s.frequency_penalty = 1.0F;
  s.repeat_last_n = 4;
  const auto got = penalties(s, {5, 7, 7, 8}, {8, 9});
  const std::map<Token, std::pair<float, float>> want = {{7, {-1.0F, 1.0F}}, {8, {-2.0F, 1.0F}}, {9, {-1.0F, 1.0F}}};
  EXPECT_EQ(got, want);
  s.repeat_last_n = 0;
  EXPECT_TRUE(penalties(s, {5, 7}, {8, 9}).empty());
  s.repeat_last_n = -1;
  EXPECT_EQ(penalties(s, {5, 7}, {8, 9}).size(), 4U);
}

TEST(Rules, DryFollowsItsDefinition) {
  Rng rng(9);
  for (int round = 0; round < 400; ++round) {
    SamplingParams s;
    s.dry_multiplier = 0.8F;
    s.dry_base = 1.75F;
    s.dry_allowed_length = static_cast<int>(rng.between(1, 3));
    if (round % 2 == 0) s.dry_breakers = {2};
    const std::vector<Token> text = random_tokens(rng, static_cast<int>(rng.between(1, 60)), round % 5 + 2);
    std::map<Token, int> longest;  // by comparing at every place
    for (size_t i = 0; i + 1 < text.size(); ++i) {
      size_t n = 0;
      const auto breaks = [&](Token id) { return !s.dry_breakers.empty() && id == 2; };
      while (n <= i && text[i - n] == text[text.size() - 1 - n] && !breaks(text[i - n])) ++n;
      if (static_cast<int>(n) >= s.dry_allowed_length && !breaks(text[i + 1]))
        longest[text[i + 1]] = std::max(longest[text[i + 1]], static_cast<int>(n));
    }
    auto rules = make_rules({s, text, {}, kVocab});
    const State got = state_of(*rules[0]);
    ASSERT_EQ(got.sparse.size(), longest.size()) << round;
    for (const auto& [id, n] : longest) {
      ASSERT_TRUE(got.sparse.contains(id));
      EXPECT_NEAR(got.sparse.at(id)[0].first, -0.8 * std::pow(1.75, n - s.dry_allowed_length),
                  1e-5 * std::pow(1.75, n));
    }
  }
}

TEST(Rules, NoNgramTwice) {
  SamplingParams s;
  s.no_repeat_ngram_size = 3;
  const std::vector<Token> prompt = {1, 2, 3, 1, 2, 4, 1};
  auto rules = make_rules({s, prompt, {}, kVocab});
  EXPECT_TRUE(state_of(*rules[0]).sparse.empty());
  rules[0]->accept(2);
  const State got = state_of(*rules[0]);
  EXPECT_EQ(got.sparse.size(), 2U);
  EXPECT_TRUE(got.sparse.contains(3) && got.sparse.contains(4));
}

TEST(Rules, BadWordsNeedTheirBeginningInTheAnswer) {
  SamplingParams s;
  s.bad_words = {{5}, {1, 2}, {1, 1, 3}};
  const std::vector<Token> prompt = {1};
  auto rules = make_rules({s, prompt, {}, kVocab});
  const auto forbidden = [&] {
    std::vector<Token> out;
    for (const auto& entry : state_of(*rules[0]).sparse) out.push_back(entry.first);
    return out;
  };
  EXPECT_EQ(forbidden(), (std::vector<Token>{5}));
  rules[0]->accept(1);
  EXPECT_EQ(forbidden(), (std::vector<Token>{2, 5}));
  rules[0]->accept(1);
  EXPECT_EQ(forbidden(), (std::vector<Token>{2, 3, 5}));
}

TEST(Rules, MinTokensForbidsTheEnd) {
  SamplingParams s;
  s.min_tokens = 2;
  const std::vector<Token> end_ids = {9, kVocab};
  auto rules = make_rules({s, {}, end_ids, kVocab});
  EXPECT_EQ(state_of(*rules[0]).sparse.size(), 1U);
  rules[0]->accept(1);
  EXPECT_EQ(state_of(*rules[0]).sparse.size(), 1U);
  rules[0]->accept(1);
  EXPECT_TRUE(state_of(*rules[0]).sparse.empty());
}

TEST(Rules, MasksMeet) {
  LogitEdits edits;
  allow_only(mask_of(std::vector<Token>{1, 33, 40}, kVocab), edits);
  allow_only(mask_of(std::vector<Token>{33, 2, 69}, kVocab), edits);
  EXPECT_EQ(edits.bitmask, (std::vector<uint32_t>{0U, 2U, 0U}));
}

TEST(Rules, MirostatMovesTheBoundTowardsTau) {
  SamplingParams s;
  s.mirostat = 2;
  s.mirostat_tau = 3.0F;
  s.mirostat_eta = 0.5F;
  auto rules = make_rules({s, {}, {}, kVocab});
  EXPECT_EQ(state_of(*rules[0]).mu, 6.0F);
  Sampled sampled;
  sampled.surprise = 5.0F;
  rules[0]->observe(sampled);
  rules[0]->accept(0);
  EXPECT_EQ(state_of(*rules[0]).mu, 5.0F);
}

// What it is for: over a long answer the mean surprise is tau, whatever the distribution's own (8 bits here).
TEST(Rules, MirostatKeepsTheMeanSurpriseAtTau) {
  std::vector<float> logits(2000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = -1.05F * std::log(static_cast<float>(i + 1));
  SampleScratch scratch;
  for (const int version : {1, 2}) {
    for (const float tau : {3.0F, 6.0F}) {
      SamplingParams s;
      s.mirostat = version;
      s.mirostat_tau = tau;
      auto rules = make_rules({s, {}, {}, static_cast<int>(logits.size())});
      constexpr int kTokens = 2000;
      double total = 0;
      for (int64_t at = 0; at < kTokens; ++at) {
        SampleParams params = sample_params(s, at, nullptr);
        params.logprob = false;
        rules[0]->shape(params);
        Sampled sampled;
        sample_row(logits, params, plain_sample_kernels(), scratch, sampled);
        ASSERT_TRUE(sampled.ok);
        total += static_cast<double>(sampled.surprise);
        rules[0]->observe(sampled);
        rules[0]->accept(sampled.token);
      }
      EXPECT_NEAR(total / kTokens, static_cast<double>(tau), 0.05) << "version " << version;
    }
  }
}

TEST(Rules, SuffixMatchesOfOneLetterAreLinear) {
  std::vector<int> out;
  suffix_matches(std::vector<Token>(100000, 1), 100000, out);
  EXPECT_EQ(out[99998], 99999);
  EXPECT_EQ(out[0], 1);
}

TEST(SamplingParams, NamesOfFilters) {
  EXPECT_EQ(find_filter("typ_p"), kFilter<filters::TypicalP>);
  EXPECT_EQ(find_filter("top_k"), kFilter<filters::TopK>);
  EXPECT_FALSE(find_filter("mirostat").has_value());
  EXPECT_FALSE(find_filter("").has_value());
}

}  // namespace
}  // namespace quire
