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
  TokenChannel c(1 << 20);
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
  TokenChannel c(10 * static_cast<int64_t>(sizeof(TokenEvent)));
  for (Token i = 0; i < 10; ++i) EXPECT_TRUE(c.push(event(i)));
  TokenEvent e;
  ASSERT_TRUE(c.pop(e));
  EXPECT_TRUE(c.push(event(10)));
  EXPECT_FALSE(c.overflowed());
  EXPECT_FALSE(c.push(event(11, 1)));
  EXPECT_TRUE(c.overflowed());
  ASSERT_TRUE(c.pop(e));
  EXPECT_FALSE(c.push(event(12)));
}

TEST(TokenChannel, OneWriterAndOneReaderAgree) {
  constexpr Token kN = 200'000;
  TokenChannel c(int64_t{1} << 40);
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
