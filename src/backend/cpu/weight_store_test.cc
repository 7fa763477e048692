#include "backend/cpu/weight_store.h"

#include <gtest/gtest.h>

#include <cstring>

namespace quire {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(WeightStore, GivesAlignedPiecesThatDoNotOverlap) {
  WeightStore store;
  std::byte* a = *store.allocate(100);
  std::byte* b = *store.allocate(70 * kMiB);  // more than a slab
  std::byte* c = *store.allocate(64);
  for (std::byte* p : {a, b, c}) EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0U);
  std::memset(a, 1, 100);
  std::memset(b, 2, static_cast<size_t>(70 * kMiB));
  std::memset(c, 3, 64);
  EXPECT_EQ(a[99], std::byte{1});
  EXPECT_EQ(b[70 * kMiB - 1], std::byte{2});
}

TEST(WeightStore, TellsHowItCameByItsPages) {
  EXPECT_EQ(WeightStore::pages_text(100 * kMiB, 100 * kMiB, PageKind::huge_explicit),
            "weights on 2 MiB pages (explicit)");
  EXPECT_EQ(WeightStore::pages_text(100 * kMiB, 90 * kMiB, PageKind::huge_advised), "weights on 2 MiB pages (advised)");
  EXPECT_EQ(WeightStore::pages_text(100 * kMiB, 50 * kMiB, PageKind::huge_advised),
            "only 50 % of the weights on 2 MiB pages (advised)");
  EXPECT_EQ(WeightStore::pages_text(100 * kMiB, 0, PageKind::small),
            "only 0 % of the weights on 2 MiB pages (refused)");
}

TEST(WeightStore, SaysNothingOfPagesBeforeThereAreWeights) {
  WeightStore store;
  EXPECT_EQ(store.describe_pages(), "");
  std::memset(*store.allocate(4 * kMiB), 1, static_cast<size_t>(4 * kMiB));
  EXPECT_NE(store.describe_pages().find("2 MiB pages ("), std::string::npos);
}

}  // namespace
}  // namespace quire
