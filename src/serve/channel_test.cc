#include "serve/channel.h"

#include <gtest/gtest.h>

#include <thread>

namespace quire {
namespace {

TokenEvent event(Token id, int n_top = 0) {
  TokenEvent e;
  e.id = id;
  for (int i = 0; i < n_top; ++i) e.top.push_back({i, 0.0F});
  return e;
}

TEST(TokenChannel, KeepsOrderOverBlocks) {
  HeldBytes held(std::make_shared<AnswerBudget>(int64_t{1} << 40), int64_t{1} << 40);
  TokenChannel c(1 << 20, held);
  TokenEvent e;
  EXPECT_FALSE(c.pop(e));
  for (Token round = 0; round < 3; ++round) {
    for (Token i = 0; i < 100; ++i) EXPECT_TRUE(c.push(event(round * 100 + i)));
    for (Token i = 0; i < 100; ++i) {
      ASSERT_TRUE(c.pop(e));
      EXPECT_EQ(e.id, round * 100 + i);
    }
    EXPECT_FALSE(c.pop(e));
  }
}

TEST(TokenChannel, OverflowsByBytesAndStaysSo) {
  HeldBytes held(std::make_shared<AnswerBudget>(int64_t{1} << 40), int64_t{1} << 40);
  TokenChannel c(10 * static_cast<int64_t>(sizeof(TokenEvent)), held);
  for (Token i = 0; i < 10; ++i) EXPECT_TRUE(c.push(event(i)));
  TokenEvent e;
  ASSERT_TRUE(c.pop(e));
  EXPECT_TRUE(c.push(event(10)));
  EXPECT_EQ(c.overflow(), Overflow::none);
  EXPECT_FALSE(c.push(event(11, 1)));
  EXPECT_EQ(c.overflow(), Overflow::behind);
  ASSERT_TRUE(c.pop(e));
  EXPECT_FALSE(c.push(event(12)));
}

TEST(TokenChannel, CountsForItsRequestAndForAll) {
  const auto all = std::make_shared<AnswerBudget>(4 * HeldBytes::kFreeBytes);
  HeldBytes held(all, 2 * HeldBytes::kFreeBytes);
  {
    TokenChannel c(int64_t{1} << 40, held), other(int64_t{1} << 40, held);
    while (c.push(event(1))) EXPECT_TRUE(other.push(event(2)) || other.overflow() == Overflow::behind);
    EXPECT_EQ(c.overflow(), Overflow::behind) << "the two of a request have one bound";
    EXPECT_GT(held.held(), 2 * HeldBytes::kFreeBytes - static_cast<int64_t>(sizeof(TokenEvent)));
    TokenEvent e;
    while (c.pop(e)) continue;
    while (other.pop(e)) continue;
    EXPECT_EQ(held.held(), 0);
  }
  HeldBytes second(all, int64_t{1} << 40);
  TokenChannel c(int64_t{1} << 40, second);
  while (c.push(event(1))) continue;
  EXPECT_EQ(c.overflow(), Overflow::all_full);
  EXPECT_LE(all->held(), all->max_bytes());
}

TEST(TokenChannel, OneWriterAndOneReaderAgree) {
  constexpr Token kN = 200'000;
  HeldBytes held(std::make_shared<AnswerBudget>(int64_t{1} << 40), int64_t{1} << 40);
  TokenChannel c(int64_t{1} << 40, held);
  std::thread writer([&] {
    for (Token i = 0; i < kN; ++i) c.push(event(i, i % 3));
  });
  TokenEvent e;
  for (Token i = 0; i < kN;) {
    if (!c.pop(e)) continue;
    ASSERT_EQ(e.id, i);
    ASSERT_EQ(e.top.size(), static_cast<size_t>(i % 3));
    ++i;
  }
  writer.join();
  EXPECT_FALSE(c.pop(e));
}

}  // namespace
}  // namespace quire
