#include "base/bounded_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace quire {
namespace {

constexpr std::array<std::byte, 6> kData = {std::byte{1}, std::byte{2},   std::byte{3},
                                            std::byte{4}, std::byte{'h'}, std::byte{'i'}};

TEST(BoundedReader, ReadsLittleEndianAndText) {
  BoundedReader reader(kData);
  EXPECT_EQ(reader.read<uint32_t>("n").value(), 0x04030201U);
  EXPECT_EQ(reader.offset(), 4U);
  EXPECT_EQ(reader.remaining(), 2U);
  EXPECT_EQ(reader.text(2, "t").value(), "hi");
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(BoundedReader, NamesOffsetWantedAndLeft) {
  BoundedReader reader(kData, 100);
  ASSERT_TRUE(reader.read<uint32_t>("n"));
  const auto short_read = reader.read<uint64_t>("the count");
  ASSERT_FALSE(short_read);
  EXPECT_EQ(short_read.error().code, Code::corrupt);
  EXPECT_EQ(short_read.error().message, "byte 104: the count takes 8 bytes, 2 are left");
  EXPECT_EQ(reader.offset(), 104U);  // a failed read moves nothing
  EXPECT_TRUE(reader.bytes(2, "rest"));
  ASSERT_EQ(reader.since(104).size(), 2U);
  EXPECT_EQ(reader.since(104)[1], std::byte{'i'});
}

TEST(BoundedReader, HugeLengthsDoNotWrap) {
  BoundedReader reader(kData);
  ASSERT_TRUE(reader.read<uint16_t>("n"));
  for (const uint64_t n : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63, uint64_t{5}}) {
    EXPECT_FALSE(reader.bytes(n, "blob")) << n;
  }
  EXPECT_TRUE(reader.bytes(0, "nothing"));
  EXPECT_TRUE(reader.check_count(2, 2, "pairs"));
  EXPECT_FALSE(reader.check_count(3, 2, "pairs"));
  EXPECT_FALSE(reader.check_count(uint64_t{1} << 63, 2, "pairs"));  // the product would wrap to 0
}

TEST(BoundedReader, CheckedArithmetic) {
  uint64_t out = 0;
  EXPECT_TRUE(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1, out));
  EXPECT_FALSE(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32, out));
  EXPECT_FALSE(checked_add(std::numeric_limits<uint64_t>::max(), 1, out));
}

}  // namespace
}  // namespace quire
