#include "base/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace quire {
namespace {

TEST(Queue, KeepsOrderAndRefusesWhenFull) {
  Queue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.try_pop(), 2);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(Queue, RefusedValueStaysWithTheCaller) {
  Queue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.try_push(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
}

TEST(Queue, CloseDrainsThenEnds) {
  Queue<int> queue(4);
  EXPECT_TRUE(queue.try_push(7));
  queue.close();
  queue.close();
  EXPECT_FALSE(queue.try_push(8));
  EXPECT_FALSE(queue.push(9));
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(Queue, CloseWakesBlockedPopAndPush) {
  Queue<int> empty(1), full(1);
  ASSERT_TRUE(full.try_push(1));
  std::optional<int> popped = 5;
  bool pushed = true;
  std::thread popper([&] { popped = empty.pop(); });
  std::thread pusher([&] { pushed = full.push(2); });
  empty.close();
  full.close();
  popper.join();
  pusher.join();
  EXPECT_EQ(popped, std::nullopt);
  EXPECT_FALSE(pushed);
}

TEST(Queue, ManyProducersManyConsumersLoseNothing) {
  constexpr int kPerProducer = 5000, kProducers = 3, kConsumers = 3;
  Queue<int> queue(16);
  std::vector<std::atomic<int>> seen(kPerProducer * kProducers);
  std::vector<std::thread> producers, consumers;
  for (int p = 0; p < kProducers; ++p)
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kPerProducer; ++i) EXPECT_TRUE(queue.push(p * kPerProducer + i));
    });
  for (int c = 0; c < kConsumers; ++c)
    consumers.emplace_back([&] {
      while (auto item = queue.pop()) seen[static_cast<size_t>(*item)].fetch_add(1);
    });
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  for (auto& count : seen) ASSERT_EQ(count.load(), 1);
}

}  // namespace
}  // namespace quire
