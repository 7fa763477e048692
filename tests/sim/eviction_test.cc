// What stays under each policy, over traffic from a seed and the first hours of a real trace.
#include "tests/sim/eviction.h"

#include <gtest/gtest.h>

#include "base/sanitized.h"
#include "kv/kv_policy.h"
#include "tests/sim/traces.h"

namespace quire::sim {
namespace {

constexpr int kRequests = kSanitized ? 300 : 4000;

std::vector<std::string> policies() { return Registry<KvPolicyEntry>::get().names(); }

TEST(Eviction, NobodyKnowsMoreThanTheFuture) {
  const Traffic traffic = dialogue_traffic(3, kRequests);
  const Kept all = keep_all(traffic);
  for (const int n_blocks : {100, 1000}) {
    const Kept best = keep_by_future(traffic, n_blocks);
    EXPECT_LE(best.n_found, all.n_found);
    for (const std::string& policy : policies()) {
      const Kept kept = keep_by_policy(traffic, policy, n_blocks);
      EXPECT_EQ(kept.n_asked, all.n_asked);
      EXPECT_GT(kept.n_found, 0) << policy;
      EXPECT_LT(kept.n_found, best.n_found) << policy << " " << n_blocks;
      EXPECT_EQ(kept, keep_by_policy(traffic, policy, n_blocks)) << policy << " twice";
    }
  }
}

TEST(Eviction, WhereThereIsRoomNoPolicyLosesAnything) {
  const Traffic traffic = dialogue_traffic(4, kRequests / 10);
  const Kept all = keep_all(traffic);
  for (const std::string& policy : policies()) EXPECT_EQ(keep_by_policy(traffic, policy, 1 << 14), all) << policy;
}

TEST(Eviction, TheFutureOfAFewBlocksIsKnownByHand) {
  const Traffic traffic{"few", 16, {{1, 2}, {3}, {1, 2}, {4}, {3}, {1}}};
  EXPECT_EQ(keep_all(traffic).n_found, 4);
  EXPECT_EQ(keep_by_future(traffic, 3).n_found, 4) << "2 makes room for 4";
  EXPECT_EQ(keep_by_future(traffic, 2).n_found, 2) << "1 stays, and one after the other beside it";
  EXPECT_EQ(keep_by_policy(traffic, "lru", 3).n_found, 3) << "3 made room for 4";
}

// The margin by which a default is chosen, at sizes where there is a choice.
TEST(Eviction, CostAwareSavesMoreThanLru) {
  const std::string path = trace_path("mooncake_conversation_trace.jsonl");
  if (path.empty()) GTEST_SKIP() << "no data/traces/mooncake_conversation_trace.jsonl in QUIRE_SHARED";
  Result<Traffic> traffic = mooncake_traffic(path);
  ASSERT_TRUE(traffic) << traffic.error().message;
  EXPECT_EQ(traffic->requests.size(), 12031U);
  if (kSanitized) {
    traffic->requests.resize(kRequests);
    keep_by_policy(*traffic, "cost_aware", 1000);
    return;
  }
  EXPECT_GT(keep_by_policy(*traffic, "cost_aware", 4000).saved_s, 1.5 * keep_by_policy(*traffic, "lru", 4000).saved_s);
  EXPECT_GT(keep_by_policy(*traffic, "cost_aware", 16000).saved_s,
            1.08 * keep_by_policy(*traffic, "lru", 16000).saved_s);
}

}  // namespace
}  // namespace quire::sim
