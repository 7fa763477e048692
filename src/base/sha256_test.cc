#include "base/sha256.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// FIPS 180-4's own examples.
TEST(Sha256, EqualsTheStandardsExamples) {
  EXPECT_EQ(hex_of(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, ReadsWhatItWritesAndNothingElse) {
  const Sha256 digest = sha256("abc");
  const std::string hex = hex_of(digest);
  ASSERT_TRUE(parse_sha256(hex));
  EXPECT_TRUE(same_digest(*parse_sha256(hex), digest));
  EXPECT_FALSE(same_digest(sha256("abd"), digest));
  for (const std::string& bad : {hex.substr(1), hex + "0", std::string(), "x" + hex.substr(1)})
    EXPECT_FALSE(parse_sha256(bad)) << bad;
}

}  // namespace
}  // namespace quire
