#include "base/hash128.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

Hash128 of(std::string_view text, uint64_t seed = 0) { return hash128(text.data(), text.size(), seed); }

// The published values of XXH3-128 (xxhsum -H2): names outside the process stand on these.
TEST(Hash128, IsXxh3AndTheSameEverywhere) {
  EXPECT_EQ(to_hex(of("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(of("a"), of("b"));
  EXPECT_NE(of("a"), of("a", 1));
  EXPECT_NE(of(""), of(std::string_view("\0", 1)));
}

TEST(Hash128, HexGoesThereAndBack) {
  const Hash128 hash{0x0123456789abcdefULL, 0xfULL};
  EXPECT_EQ(to_hex(hash), "000000000000000f0123456789abcdef");
  Hash128 back;
  ASSERT_TRUE(from_hex(to_hex(hash), back));
  EXPECT_EQ(back, hash);
  for (const std::string bad : {"", "12", "000000000000000f0123456789abcdeg", "000000000000000f0123456789abcdef0",
                                "-00000000000000f0123456789abcdef"}) {
    EXPECT_FALSE(from_hex(bad, back)) << bad;
  }
  EXPECT_EQ(back, hash);
}

}  // namespace
}  // namespace quire
