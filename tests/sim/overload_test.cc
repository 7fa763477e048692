// Strict admission, whole: an engine whose credit (engine/growth.h) is used up lets in only who finds room for the most
// that it may ask for. That nobody else came in is checked after every step (recomputed.h); here is that it is met.
#include <gtest/gtest.h>

#include "tests/sim/world.h"

namespace quire::sim {
namespace {

// Short answers, then long ones, in a few blocks: what was learned from the short ones promises room that is not there.
// Without a prefix cache all that is lost stays lost.
Script used_up(int n_blocks, int recompute_percent) {
  constexpr int kShort = 20, kLong = 40;
  Script script;
  script.seed = 7;
  script.knobs.n_ctx = 128;
  script.knobs.n_blocks = n_blocks;
  script.knobs.recompute_percent = recompute_percent;
  script.knobs.prefix_cache = false;
  for (int i = 0; i < kShort + kLong; ++i) {
    RequestScript r;
    r.prompt = {{7000 + static_cast<uint64_t>(i), 15}};
    r.max_tokens = 100;
    if (i < kShort) r.end_after = 2;
    script.requests.push_back(r);
  }
  return script;
}

TEST(Overload, WithoutCreditWhoComesInFindsRoomForTheMostThatItMayAskFor) {
  for (const int n_blocks : {9, 10, 12}) {
    const Outcome free = run(used_up(n_blocks, 100));
    ASSERT_EQ(free.failure, "") << n_blocks << " blocks";
    EXPECT_EQ(free.counts.strict, 0) << "without a bound there is no credit";
    for (const int percent : {0, 1}) {
      SCOPED_TRACE(std::to_string(n_blocks) + " blocks, " + std::to_string(percent) + " %");
      const Outcome held = run(used_up(n_blocks, percent));
      ASSERT_EQ(held.failure, "");
      EXPECT_GE(held.counts.strict, 10);
      EXPECT_GT(held.counts.out_of_blocks, 0) << "something used the credit up";
      EXPECT_LT(10 * held.counts.recomputed, free.counts.recomputed);
      EXPECT_EQ(held.counts.finished, free.counts.finished);
    }
  }
}

}  // namespace
}  // namespace quire::sim
