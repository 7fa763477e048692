// The order that each policy gives plain views.
#include "engine/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::string order(const char* policy, const std::vector<Candidate>& candidates) {
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  Registry<PolicyEntry>::get().find(policy)->get()->order(candidates, order);
  std::string out;
  for (const int i : order) out += (out.empty() ? "" : " ") + std::to_string(candidates[static_cast<size_t>(i)].id);
  return out;
}

Candidate waiting(SeqId id, int64_t submitted_ns, int n_prompt, int n_hit) {
  return {.id = id, .submitted_ns = submitted_ns, .n_pending = n_prompt, .n_prompt = n_prompt, .n_hit = n_hit};
}

TEST(Policy, FcfsGoesByIdAlone) {
  EXPECT_EQ(order("fcfs", {{.id = 3}, {.id = 1, .priority = 9}, waiting(2, 0, 10, 9)}), "1 2 3");
}

TEST(Policy, PriorityGoesByNumberThenById) {
  EXPECT_EQ(order("priority", {{.id = 1}, {.id = 2, .priority = -1}, {.id = 3, .priority = 5}, {.id = 4}}), "2 1 4 3");
}

TEST(Policy, PrefixPutsTheLargerCachedShareFirst) {
  EXPECT_EQ(order("prefix", {waiting(1, 0, 100, 0), waiting(2, 0, 100, 50), waiting(3, 0, 1000, 100)}), "2 3 1");
  EXPECT_EQ(order("prefix", {waiting(2, 0, 100, 50), waiting(1, 0, 10, 5)}), "1 2") << "equal shares: by arrival";
}

TEST(Policy, PrefixPassesNobodyWhoCameTwoSecondsBefore) {
  EXPECT_EQ(order("prefix", {waiting(1, 0, 100, 0), waiting(2, 2 * kSecond - 1, 100, 100)}), "2 1");
  EXPECT_EQ(order("prefix", {waiting(1, 0, 100, 0), waiting(2, 2 * kSecond, 100, 100)}), "1 2");
  EXPECT_EQ(order("prefix", {waiting(1, 0, 100, 0), waiting(2, kSecond, 100, 50)}), "1 2");
}

TEST(Policy, EachOrdersEveryQueueTotallyAndTheSameWhicheverWayItStood) {
  Rng rng(1);
  for (const std::string& name : Registry<PolicyEntry>::get().names()) {
    std::vector<Candidate> queue;
    for (SeqId id = 1; id <= 200; ++id) {
      const int n = static_cast<int>(rng.between(1, 1 << 20));
      queue.push_back({id, rng.between(0, int64_t{1} << 60), static_cast<int>(rng.between(-3, 3)), n, n,
                       static_cast<int>(rng.between(0, n))});
    }
    const std::string before = order(name.c_str(), queue);
    std::reverse(queue.begin(), queue.end());
    EXPECT_EQ(order(name.c_str(), queue), before) << name;
  }
}

}  // namespace
}  // namespace quire
