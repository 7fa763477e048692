#include "http/byte_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace quire {
namespace {

TEST(ByteBudget, AnAddressGetsWhatIsLeftOver) {
  const auto budget = std::make_shared<ByteBudget>(1200);
  ByteAccount a(budget), b(budget), c(budget);
  EXPECT_TRUE(a.take(600)) << "alone: half";
  EXPECT_FALSE(a.take(1));
  EXPECT_FALSE(b.take(301)) << "half of the rest";
  EXPECT_TRUE(b.take(300));
  EXPECT_TRUE(c.take(150));
  EXPECT_FALSE(c.take(1));
  EXPECT_EQ(budget->used(), 1050);
  a.give(600);
  EXPECT_TRUE(c.take(300)) << "what others give back is for all";
  EXPECT_EQ(c.used(), 450);
  EXPECT_FALSE(c.take(1));
}

TEST(ByteBudget, ALeaseCountsWhatIsBeyondItsFreeBytes) {
  const auto budget = std::make_shared<ByteBudget>(1000);
  const auto account = std::make_shared<ByteAccount>(budget);
  {
    ByteLease lease(account);
    EXPECT_TRUE(lease.resize(kFreeBytes));
    EXPECT_EQ(budget->used(), 0);
    EXPECT_TRUE(lease.resize(kFreeBytes + 500));
    EXPECT_FALSE(lease.resize(kFreeBytes + 501));
    EXPECT_EQ(budget->used(), 500);
    lease.set(kFreeBytes + 700);
    EXPECT_EQ(budget->used(), 700);
    EXPECT_TRUE(lease.resize(kFreeBytes + 600)) << "holding less is never refused";
    ByteLease moved = std::move(lease);
    EXPECT_EQ(budget->used(), 600);
    EXPECT_TRUE(moved.resize(0));
    EXPECT_TRUE(moved.resize(kFreeBytes + 10));
  }
  EXPECT_EQ(budget->used(), 0);
  EXPECT_EQ(account->used(), 0);
}

TEST(ByteBudget, ManyThreadsNeverHoldMoreThanTheLimit) {
  const auto budget = std::make_shared<ByteBudget>(10'000);
  std::atomic<int64_t> held{0}, peak{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const auto account = std::make_shared<ByteAccount>(budget);
      for (int i = 0; i < 20'000; ++i) {
        if (!account->take(3000)) continue;
        const int64_t now = held += 3000;
        int64_t seen = peak;
        while (seen < now && !peak.compare_exchange_weak(seen, now)) {
        }
        held -= 3000;
        account->give(3000);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_GT(peak, 0);
  EXPECT_LE(peak, 10'000);
  EXPECT_EQ(budget->used(), 0);
}

}  // namespace
}  // namespace quire
