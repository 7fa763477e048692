#include "base/turn_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace quire {
namespace {

template <class T>
std::vector<T> rest_of(TurnQueue<T>& queue) {
  queue.close();
  std::vector<T> out;
  while (auto value = queue.pop()) out.push_back(std::move(*value));
  return out;
}

TEST(TurnQueue, EachOfThoseWhoWaitHasATurn) {
  TurnQueue<int> queue(100);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.try_push(1, 10 + i));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(queue.try_push(2, 20 + i));
  EXPECT_EQ(queue.pop(), 10);
  EXPECT_TRUE(queue.try_push(3, 30)) << "who comes late is behind those who wait, not behind all that they have";
  EXPECT_EQ(rest_of(queue), (std::vector<int>{20, 11, 30, 21, 12, 13}));
}

TEST(TurnQueue, WhoIsAloneHasAllOfAShortOneAndNearlyAllOfALongOne) {
  const auto n_alone = [](size_t capacity) {
    TurnQueue<int> queue(capacity);
    while (queue.try_push(1, 0)) continue;
    return queue.size();
  };
  for (const size_t capacity : {1U, 2U, 8U, 9U}) EXPECT_EQ(n_alone(capacity), capacity);
  EXPECT_EQ(n_alone(10), 9U);
  EXPECT_EQ(n_alone(2048), 1821U);
}

TEST(TurnQueue, ManyWhoWantAllOfItLeaveAPlaceToOthers) {
  TurnQueue<int> queue(1024);
  for (int round = 0; round < 1024; ++round)
    for (uint64_t who = 1; who <= 64; ++who) (void)queue.try_push(who, 0);
  EXPECT_GT(queue.size(), 900U);
  EXPECT_TRUE(queue.try_push(100, 0));
}

TEST(TurnQueue, ARefusedValueStaysWithTheCaller) {
  TurnQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.try_push(1, std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.try_push(2, std::move(second)));
  queue.close();
  EXPECT_FALSE(queue.try_push(1, std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);  // NOLINT(bugprone-use-after-move): that it may be used is what is tested
  EXPECT_EQ(**queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(TurnQueue, CloseWakesWhoeverWaits) {
  TurnQueue<int> queue(1);
  std::optional<int> popped = 5;
  std::thread popper([&] { popped = queue.pop(); });
  queue.close();
  queue.close();
  popper.join();
  EXPECT_EQ(popped, std::nullopt);
}

TEST(TurnQueue, ManyProducersManyConsumersLoseNothing) {
  constexpr int kPerProducer = 5000, kProducers = 3, kConsumers = 3;
  TurnQueue<int> queue(16);
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> producers, consumers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 1; i <= kPerProducer; ++i)
        while (!queue.try_push(static_cast<uint64_t>(p), int{i})) std::this_thread::yield();
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    consumers.emplace_back([&] {
      while (const auto value = queue.pop()) sum += *value;
    });
  }
  for (std::thread& t : producers) t.join();
  queue.close();
  for (std::thread& t : consumers) t.join();
  EXPECT_EQ(sum, int64_t{kProducers} * kPerProducer * (kPerProducer + 1) / 2);
  EXPECT_EQ(queue.size(), 0U);
}

}  // namespace
}  // namespace quire
