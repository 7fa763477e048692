// What of a prompt is kept: the first block, the window at its end, and the most votes; and who may have a budget.
#include "engine/budget.h"

#include <gtest/gtest.h>

#include "engine/limits.h"
#include "engine/play.h"

namespace quire {
namespace {

std::vector<int32_t> chosen(PromptBudget& budget) {
  const std::span<const int32_t> kept = budget.choose();
  return {kept.begin(), kept.end()};
}

using Blocks = std::vector<int32_t>;

TEST(PromptBudget, KeepsTheFirstTheWindowAndTheMostVotes) {
  PromptBudget budget(96, 200, 16);  // 6 of 13 blocks; the last 32 tokens lie in 10, 11 and 12
  ASSERT_TRUE(budget.bounds());
  EXPECT_EQ(budget.n_kept(), 6);
  EXPECT_EQ(budget.first_voting(), 168);
  for (const auto& [block, votes] : {std::pair(4, 7), std::pair(7, 9), std::pair(2, 8)}) budget.votes()[block] = votes;
  EXPECT_EQ(chosen(budget), (Blocks{0, 2, 7, 10, 11, 12}));
  budget.votes()[4] = 10;
  EXPECT_EQ(chosen(budget), (Blocks{0, 4, 7, 10, 11, 12})) << "asked again";
}

TEST(PromptBudget, OfEqualVotesTheFirstStay) {
  PromptBudget budget(112, 200, 16);
  EXPECT_EQ(chosen(budget), (Blocks{0, 1, 2, 3, 10, 11, 12}));
  for (int b = 0; b < 13; ++b) budget.votes()[b] = b == 1 ? 1 : 2;
  EXPECT_EQ(chosen(budget), (Blocks{0, 2, 3, 4, 10, 11, 12}));
  budget.forget();
  EXPECT_EQ(chosen(budget), (Blocks{0, 1, 2, 3, 10, 11, 12}));
}

TEST(PromptBudget, TheLeastHasRoomForWindowAndFirstBlockWhereverThePromptEnds) {
  EXPECT_EQ(least_budget(16), 64);
  EXPECT_EQ(least_budget(64), 192);
  for (const int block : {16, 32, 64, 256}) {
    for (int n = least_budget(block) + 1; n < least_budget(block) + 3 * block; ++n) {
      PromptBudget budget(least_budget(block), n, block);
      if (!budget.bounds()) continue;
      const Blocks kept = chosen(budget);
      EXPECT_EQ(kept.front(), 0);
      for (int t = n - kVotingRows; t < n; ++t)
        EXPECT_TRUE(std::ranges::binary_search(kept, t / block)) << block << " " << n << " " << t;
    }
  }
}

TEST(PromptBudget, APromptThatFitsIsNotBounded) {
  EXPECT_FALSE(PromptBudget().bounds());
  EXPECT_FALSE(PromptBudget(0, 1000, 16).bounds());
  EXPECT_FALSE(PromptBudget(100, 96, 16).bounds()) << "whole blocks: 6 of 6";
  EXPECT_TRUE(PromptBudget(100, 97, 16).bounds());
  EXPECT_EQ(kept_blocks(100, 97, 16), 6);
}

struct Refusal {
  Request request;
  RequestLimits limits{.n_ctx = 1000, .n_vocab = 100, .n_blocks = 100, .block_tokens = 16};
  Refusal() { request.prompt.assign(200, 1); }
  std::string text() {
    const Status done = check_request(request, limits);
    return done ? "" : done.error().message;
  }
};

TEST(PromptBudget, OneBelowTheWindowNamesBoth) {
  Refusal r;
  r.request.kv_budget = 63;
  EXPECT_EQ(
      r.text(),
      "kv_budget is 63; it must be at least 64: the window of 32 tokens at the prompt's end and the first block, in "
      "blocks of 16");
  r.request.kv_budget = 64;
  EXPECT_EQ(r.text(), "");
  r.request.kv_budget = -1;
  EXPECT_NE(r.text().find("kv_budget is -1"), std::string::npos);
}

TEST(PromptBudget, BesideWhatItCannotBe) {
  Refusal r;
  r.request.kv_budget = 64;
  r.request.pin.id = 3;
  EXPECT_NE(r.text().find("pinned"), std::string::npos);
  r.request.pin.id = 0;
  r.request.prefix = 5;
  EXPECT_NE(r.text().find("learned prefix"), std::string::npos);
  r.request.prefix = 0;
  r.limits.no_budget = "the model has latent attention";
  EXPECT_EQ(r.text(), "kv_budget is 64, and there can be none: the model has latent attention");
}

TEST(PromptBudget, CopiesNeedRoom) {
  Refusal r;
  r.request.kv_budget = 64;
  r.limits.n_blocks = 17;  // 13 and 4 copies
  r.request.max_tokens = 9;
  EXPECT_EQ(r.text(), "");
  r.limits.n_blocks = 16;
  EXPECT_EQ(
      r.text(),
      "prompt and answer of 208 tokens need 17 cache blocks, copies of those that kv_budget keeps among them; there "
      "are 16");
}

TEST(PromptBudget, CopiesNeedRoomBesideWhatIsPinned) {
  Refusal r;
  r.limits.n_blocks = 30;
  r.limits.n_pinnable = 13;
  r.request.max_tokens = 9;
  EXPECT_EQ(r.text(), "");  // 13 blocks
  r.request.kv_budget = 64;
  EXPECT_EQ(r.text(), "");  // and 4 copies
  r.limits.n_pinnable = 14;
  EXPECT_NE(r.text().find("there are 16 beside those that may be pinned"), std::string::npos) << r.text();
}

TEST(PromptBudget, ModelsThatCannot) {
  const auto ops = make_play_ops();
  EXPECT_EQ(why_no_budget(PlayModel(100, 10, 1).info(), *ops, false), "");
  EXPECT_NE(why_no_budget(PlayModel(100, 10, 1).info(), *ops, true).find("recorded"), std::string_view::npos);
  EXPECT_NE(why_no_budget(PlayModel(100, 10, 1, 32).info(), *ops, false).find("window"), std::string_view::npos);
  ModelInfo info;
  info.kv_layout.claim(KvGroup{}, 4);
  info.kv_layout.claim(kTailGroup, 4);
  EXPECT_NE(why_no_budget(info, *ops, false).find("kivi2"), std::string_view::npos);
  info = {};
  info.kv_layout.claim_state(64);
  EXPECT_NE(why_no_budget(info, *ops, false).find("state"), std::string_view::npos);
  info = {};
  info.attention.push_back({.values_in_keys = true});
  EXPECT_NE(why_no_budget(info, *ops, false).find("latent"), std::string_view::npos);
  info.attention = {};
  info.sees_chunks = true;
  EXPECT_NE(why_no_budget(info, *ops, false).find("chunk"), std::string_view::npos);
  info.sees_chunks = false;
  info.attention = {{.most_slope_bits = 8.0F}};
  EXPECT_NE(why_no_budget(info, *ops, false).find("ALiBi"), std::string_view::npos);
  info = {};
  info.shift = {.n_sinks = 4, .window = 64};
  EXPECT_NE(why_no_budget(info, *ops, false).find("shifted"), std::string_view::npos);
}

}  // namespace
}  // namespace quire
