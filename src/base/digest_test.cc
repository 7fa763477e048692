#include "base/digest.h"

#include <gtest/gtest.h>

#include "base/sha256.h"

namespace quire {
namespace {

TEST(Digest, PiecesAreTheWhole) {
  Digest digest(Digest::Kind::sha256);
  digest.update("a");
  digest.update("");
  digest.update("bc");
  EXPECT_EQ(digest.hex(), hex_of(sha256("abc")));
  digest.restart();
  EXPECT_EQ(digest.hex(), hex_of(sha256("")));
}

TEST(Digest, Sha1) {  // FIPS 180-4's example
  Digest digest(Digest::Kind::sha1);
  digest.update("abc");
  EXPECT_EQ(digest.hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

}  // namespace
}  // namespace quire
