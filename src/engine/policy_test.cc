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

// The n-th of its tenant, since the plan with this number.
Candidate in_turn(SeqId id, int n_ahead, int64_t ahead_plan, int priority = 0) {
  return {.id = id, .priority = priority, .turn = {n_ahead, ahead_plan, id}};
}

TEST(Policy, FcfsGoesByArrivalWhereThereIsOneTenant) {
  EXPECT_EQ(order("fcfs", {in_turn(3, 2, 0), in_turn(1, 0, 0, 9), in_turn(2, 1, 0)}), "1 2 3");
}

TEST(Policy, FcfsLetsTenantsTakeTurns) {
  // 1, 2 and 3 are of one tenant, 4 and 5 of another, 6 of a third.
  EXPECT_EQ(order("fcfs", {in_turn(1, 0, 0), in_turn(2, 1, 0), in_turn(3, 2, 0), in_turn(4, 0, 7), in_turn(5, 1, 7),
                           in_turn(6, 0, 8)}),
            "1 4 6 2 5 3");
  // 1 has ended before plan 9: 2 is its tenant's oldest, but others were theirs before.
  EXPECT_EQ(order("fcfs", {in_turn(2, 0, 9), in_turn(3, 1, 9), in_turn(4, 0, 7), in_turn(5, 1, 7), in_turn(6, 0, 8)}),
            "4 6 2 5 3");
}

TEST(Policy, PriorityGoesByNumberThenInTurns) {
  EXPECT_EQ(order("priority", {in_turn(1, 0, 0), in_turn(2, 1, 0, -1), in_turn(3, 2, 0, 5), in_turn(4, 3, 0)}),
            "2 1 4 3");
  EXPECT_EQ(order("priority", {in_turn(1, 0, 0), in_turn(2, 1, 0), in_turn(3, 0, 5), in_turn(4, 1, 5, -1)}), "4 1 3 2");
}

TEST(Policy, VtcGoesByWhatTheTenantWasServedThenInTurns) {
  const auto served = [](SeqId id, int n_ahead, int64_t n) {
    Candidate out = in_turn(id, n_ahead, 0);
    out.served = n;
    return out;
  };
  EXPECT_EQ(order("vtc", {served(1, 0, 50), served(2, 1, 50), served(3, 0, 7), served(4, 1, 7)}), "3 4 1 2");
  EXPECT_EQ(order("vtc", {served(1, 0, 7), served(2, 1, 7), served(3, 0, 7), served(4, 1, 7)}), "1 3 2 4");
}

TEST(Policy, PriorityGoesByServiceAmongEqualsOnly) {
  Candidate a = in_turn(1, 0, 0), b = in_turn(2, 0, 1), c = in_turn(3, 0, 2, -1);
  a.served = 9, b.served = 5, c.served = 100;
  EXPECT_EQ(order("priority", {a, b, c}), "3 2 1");
}

TEST(Policy, WhoIsWithinAnAllowanceGoesFirst) {
  Candidate a = in_turn(1, 0, 0), b = in_turn(2, 3, 9), c = in_turn(3, 0, 2);
  a.served = 5, b.served = 9, c.served = 7;
  b.within = true;
  EXPECT_EQ(order("vtc", {a, b, c}), "2 1 3");
  EXPECT_EQ(order("priority", {a, b, c}), "2 1 3");
  EXPECT_EQ(order("deadlines", {a, b, c}), "2 1 3");
  EXPECT_EQ(order("fcfs", {a, b, c}), "1 3 2");
  a.priority = -1;
  EXPECT_EQ(order("priority", {a, b, c}), "1 2 3");
}

TEST(Policy, DeadlinesGoWithinShares) {
  Candidate a = in_turn(1, 0, 0), b = in_turn(2, 1, 0), c = in_turn(3, 0, 1);
  a.served = b.served = 5, c.served = 7;
  a.deadline_ns = 9, b.deadline_ns = 3, c.deadline_ns = 1;
  EXPECT_EQ(order("deadlines", {a, b, c}), "2 1 3") << "an early deadline is no larger share";
  a.within = b.within = c.within = true;
  EXPECT_EQ(order("deadlines", {a, b, c}), "3 2 1") << "unless its tenant has asked for little";
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
      queue.push_back({id,
                       rng.between(0, int64_t{1} << 60),
                       static_cast<int>(rng.between(-3, 3)),
                       n,
                       n,
                       static_cast<int>(rng.between(0, n)),
                       {static_cast<int>(rng.between(0, 20)), rng.between(0, 5), id}});
    }
    const std::string before = order(name.c_str(), queue);
    std::reverse(queue.begin(), queue.end());
    EXPECT_EQ(order(name.c_str(), queue), before) << name;
  }
}

}  // namespace
}  // namespace quire
