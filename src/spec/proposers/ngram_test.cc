// What the n-gram proposer drafts, against looking through the whole context every time.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "spec/proposer.h"

namespace quire {
namespace {

std::unique_ptr<Proposer> make_ngram(int max_draft) {
  auto made = Registry<ProposerEntry>::get().find("ngram")->make({max_draft}, {});
  EXPECT_TRUE(made);
  return std::move(*made);
}

std::vector<Token> draft_of(Proposer& proposer, SeqId id, const std::vector<Token>& context, int max_tokens) {
  Draft draft;
  draft.seq = id;
  draft.context = context;
  draft.max_tokens = max_tokens;
  proposer.propose(std::span(&draft, 1));
  return draft.tokens;
}

// The definition: the longest run of 4, 3, 2 last tokens that stood before, its latest place, what followed it.
std::vector<Token> by_definition(const std::vector<Token>& context, int max_tokens) {
  const size_t size = context.size();
  for (size_t n = 4; n >= 2; --n) {
    for (size_t end = size - 1; size > n && end >= n; --end) {
      const auto at = [&](size_t e) { return context.begin() + static_cast<std::ptrdiff_t>(e - n); };
      if (!std::equal(at(end), at(end) + static_cast<std::ptrdiff_t>(n), at(size))) continue;
      std::vector<Token> all = context;
      for (int i = 0; i < max_tokens; ++i) all.push_back(all[end + static_cast<size_t>(i)]);
      return {all.begin() + static_cast<std::ptrdiff_t>(size), all.end()};
    }
  }
  return {};
}

TEST(Ngram, DraftsWhatFollowedTheLongestRun) {
  const auto proposer = make_ngram(8);
  EXPECT_EQ(draft_of(*proposer, 1, {5}, 8), std::vector<Token>());
  EXPECT_EQ(draft_of(*proposer, 2, {1, 2, 3, 4, 5, 9, 2, 3}, 2), (std::vector<Token>{4, 5}));
  EXPECT_EQ(draft_of(*proposer, 3, {7, 2, 3, 8, 9, 2, 3, 6, 7, 2, 3}, 1), (std::vector<Token>{8})) << "7 2 3, not 2 3";
  EXPECT_EQ(draft_of(*proposer, 4, {1, 2, 1, 2}, 5), (std::vector<Token>{1, 2, 1, 2, 1})) << "round and round";
}

TEST(Ngram, IsItsDefinitionHoweverTheContextGrows) {
  int n_drafts = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    const auto proposer = make_ngram(6);
    std::vector<Token> context;
    const int n_ids = 2 + static_cast<int>(seed % 12);
    while (context.size() < 400) {
      for (int64_t n = rng.between(1, seed % 3 == 0 ? 60 : 4); n > 0; --n) {
        context.push_back(static_cast<Token>(rng.between(0, n_ids)));
      }
      const auto most = static_cast<int>(rng.between(1, 6));
      const std::vector<Token> draft = draft_of(*proposer, 1, context, most);
      ASSERT_EQ(draft, by_definition(context, most)) << "seed " << seed << " at " << context.size();
      n_drafts += draft.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(n_drafts, 1000);
}

TEST(Ngram, ALongPromptIsTakenInOverSeveralSteps) {
  Rng rng(3);
  std::vector<Token> context;
  while (context.size() < 40'000) context.push_back(static_cast<Token>(rng.between(0, 9)));
  const auto proposer = make_ngram(4);
  EXPECT_TRUE(draft_of(*proposer, 1, context, 4).empty());
  EXPECT_TRUE(draft_of(*proposer, 1, context, 4).empty());
  EXPECT_EQ(draft_of(*proposer, 1, context, 4), by_definition(context, 4));
}

// Who asks before how deep to guess is told whether there is anything.
TEST(Ngram, SaysBeforehandWhetherItHasAnything) {
  Rng rng(5);
  const auto proposer = make_ngram(6);
  std::vector<Token> context;
  int n_with = 0;
  while (context.size() < 600) {
    context.push_back(static_cast<Token>(rng.between(0, 20)));
    Draft draft;
    draft.seq = 1;
    draft.context = context;
    draft.max_tokens = 3;
    const int most = proposer->most(draft);
    ASSERT_EQ(most, static_cast<int>(by_definition(context, 3).size())) << context.size();
    ASSERT_EQ(draft_of(*proposer, 1, context, 3).size(), static_cast<size_t>(most));
    n_with += most > 0 ? 1 : 0;
  }
  EXPECT_GT(n_with, 50);
  EXPECT_LT(n_with, 550);
}

// Tokens that somebody chose so that every run is another: the index forgets, and keeps its bounds.
TEST(Ngram, RunsThatNeverRepeatDraftNothing) {
  std::vector<Token> context;
  const auto proposer = make_ngram(4);
  for (Token id = 0; id < 3000; ++id) {
    context.push_back(id);
    ASSERT_TRUE(draft_of(*proposer, 1, context, 4).empty());
  }
}

TEST(Ngram, SequencesKnowNothingOfEachOther) {
  const auto proposer = make_ngram(4);
  EXPECT_FALSE(draft_of(*proposer, 1, {1, 2, 3, 1, 2}, 4).empty());
  EXPECT_TRUE(draft_of(*proposer, 2, {1, 2}, 4).empty());
  proposer->forget(1);
  EXPECT_TRUE(draft_of(*proposer, 1, {1, 2}, 4).empty());
}

}  // namespace
}  // namespace quire
