#include "app/byte_size.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ByteSize, AreNumbersWithAUnit) {
  EXPECT_EQ(parse_bytes("--size", "12"), 12);
  EXPECT_EQ(parse_bytes("--size", "1.5K"), 1536);
  EXPECT_EQ(parse_bytes("--size", "2MiB"), int64_t{2} << 20);
  EXPECT_EQ(parse_bytes("--size", "4G"), int64_t{4} << 30);
  EXPECT_EQ(parse_bytes("--size", "1T"), int64_t{1} << 40);
  EXPECT_EQ(parse_bytes_or_auto("--size", "1TiB"), int64_t{1} << 40);
  EXPECT_EQ(parse_bytes_or_auto("--size", "auto"), 0);
}

TEST(ByteSize, AnythingElseIsRefusedWithWhatIsTaken) {
  for (const char* text : {"", "auto", "much", "0", "-1G", "0.5", "4X", "4 G", "1000T", "nan"}) {
    const auto size = parse_bytes("--size", text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().message, "--size must be a size such as 4G, got \"" + std::string(text) + "\"");
  }
  const auto neither = parse_bytes_or_auto("--size", "much");
  ASSERT_FALSE(neither);
  EXPECT_EQ(neither.error().message, "--size must be auto or a size such as 4G, got \"much\"");
}

}  // namespace
}  // namespace quire
