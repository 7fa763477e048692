// A preempted sequence whose past the tree cannot keep whole: it is copied out of the cache and back, computes nothing
// twice, and its answer is the one that it would have had alone.
#include <gtest/gtest.h>

#include "engine/test_model.h"

namespace quire {
namespace {

constexpr int kWindow = 100, kCtx = 4000, kBlocks = 100;

Request request(uint64_t text, int n_prompt = 600, int max_tokens = 400) {
  Request r;
  r.prompt = random_tokens(text, n_prompt);
  r.max_tokens = max_tokens;
  return r;
}

struct Outcome {
  EngineStats stats;
  int64_t n_recomputed = 0, most_bytes = 0;
};

// Three sequences whose pasts do not fit together, stepped to their ends.
Outcome run(int64_t swap_bytes, int n_kept, bool prefix_cache = true) {
  EngineOptions o;
  o.n_ctx = kCtx;
  o.max_seqs = 3;
  o.step_tokens = o.max_chunk = 64;
  o.block_tokens = 16;
  o.n_window_blocks = 40;
  o.prefix_cache = prefix_cache;
  o.swap_bytes = swap_bytes;
  o.recompute_share = 1;  // all come in, and some have to go
  TestEngine t(o, TestSetup{.n_blocks = kBlocks, .window = kWindow, .n_kept = n_kept});
  std::vector<std::shared_ptr<Heard>> heard;
  for (uint64_t i = 1; i <= 3; ++i) heard.push_back(t.submit(request(i)));
  Outcome out;
  for (int i = 0; i < 20'000; ++i) {
    const std::string fault = t.step();
    EXPECT_EQ(fault, "");
    if (!fault.empty() || !t.busy) break;
    out.most_bytes = std::max(out.most_bytes, t.engine->stats().swapped_bytes);
  }
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(heard[i - 1]->done());
    EXPECT_EQ(heard[i - 1]->answer, alone(request(i), kCtx)) << i;
  }
  out.stats = t.engine->stats();
  out.n_recomputed = out.stats.spent.computed[static_cast<size_t>(Cause::recomputed)];
  return out;
}

TEST(EngineSwap, WhatWasPreemptedGoesOnWhereItWas) {
  for (const auto& [n_kept, prefix_cache] : std::vector<std::pair<int, bool>>{{0, true}, {0, false}, {20, true}}) {
    const Outcome without = run(0, n_kept, prefix_cache), with = run(int64_t{1} << 30, n_kept, prefix_cache);
    EXPECT_GT(without.stats.n_preempted, 0);
    EXPECT_GT(without.n_recomputed, 200);
    EXPECT_EQ(without.stats.n_swaps_out, 0);
    EXPECT_GT(with.stats.n_swaps_in, 0);
    EXPECT_LT(with.n_recomputed, 64) << "at most what a block of the tree made not worth a copy";
    EXPECT_GE(with.stats.n_swapped_tokens, 600);
    EXPECT_GT(with.most_bytes, 0);
    EXPECT_EQ(with.stats.swapped_bytes, 0) << "nothing is left of copies";
  }
}

TEST(EngineSwap, CopiesHaveABoundAndTheTreeIsLeft) {
  const Outcome all = run(int64_t{1} << 30, 0);
  const Outcome none = run(all.most_bytes / 100, 0);
  EXPECT_GT(none.stats.n_swaps_refused, 0);
  EXPECT_EQ(none.stats.n_swaps_out, 0);
  EXPECT_GT(none.n_recomputed, 0);
}

TEST(EngineSwap, WhoIsCancelledLeavesNoCopy) {
  EngineOptions o;
  o.n_ctx = kCtx;
  o.step_tokens = o.max_chunk = 64;
  o.block_tokens = 16;
  o.n_window_blocks = 40;
  o.swap_bytes = int64_t{1} << 30;
  TestEngine t(o, TestSetup{.n_blocks = kBlocks, .window = kWindow});
  std::vector<std::shared_ptr<Heard>> heard;
  for (uint64_t i = 1; i <= 3; ++i) heard.push_back(t.submit(request(i)));
  for (int i = 0; i < 2000 && t.engine->stats().swapped_bytes == 0; ++i) ASSERT_EQ(t.step(), "");
  ASSERT_GT(t.engine->stats().swapped_bytes, 0);
  for (const auto& h : heard) t.engine->cancel(h->seq);
  ASSERT_EQ(t.run(), "");
  EXPECT_EQ(t.engine->stats().swapped_bytes, 0);
}

TEST(EngineSwap, ADefaultWhereLayersSeeAWindowAndNoneWhereEachSeesAll) {
  EngineOptions o;
  o.n_ctx = 1000;
  EXPECT_EQ(TestEngine(o, 40).engine->options().swap_bytes, 0);
  o.n_window_blocks = 80;
  const TestEngine t(o, TestSetup{.n_blocks = 40, .window = kWindow});
  EXPECT_EQ(t.engine->options().swap_bytes, t.engine->options().kv_bytes / 4);
}

}  // namespace
}  // namespace quire
