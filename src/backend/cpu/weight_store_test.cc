#include "backend/cpu/weight_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace quire {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(WeightStore, GivesAlignedPiecesThatDoNotOverlap) {
  WeightStore store(1);
  std::byte* a = store.allocate(100)->data;
  std::byte* b = store.allocate(70 * kMiB)->data;  // more than a slab
  std::byte* c = store.allocate(64)->data;
  for (std::byte* p : {a, b, c}) EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0U);
  std::memset(a, 1, 100);
  std::memset(b, 2, static_cast<size_t>(70 * kMiB));
  std::memset(c, 3, 64);
  EXPECT_EQ(a[99], std::byte{1});
  EXPECT_EQ(b[70 * kMiB - 1], std::byte{2});
}

// No page has pieces of two nodes.
TEST(WeightStore, GivesEachNodePagesOfItsOwn) {
  constexpr int kNodes = 3;
  constexpr int64_t kPage = 2 * kMiB;
  WeightStore store(kNodes);
  std::map<uintptr_t, int> owners;  // of pages
  for (const int64_t bytes : {100L, kMiB, 71 * kMiB + 1, 64L, 63 * kMiB}) {
    const WeightStore::Room room = *store.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(room.data) % 64, 0U);
    EXPECT_GE(room.stride, bytes);
    for (int node = 0; node < kNodes; ++node) {
      std::byte* mine = room.data + node * room.stride;
      const auto first = reinterpret_cast<uintptr_t>(mine) / kPage;
      const auto last = reinterpret_cast<uintptr_t>(mine + bytes - 1) / kPage;
      for (uintptr_t page = first; page <= last; ++page) EXPECT_EQ(owners.try_emplace(page, node).first->second, node);
      EXPECT_EQ(mine[0], std::byte{0});
      EXPECT_EQ(mine[bytes - 1], std::byte{0});
      mine[0] = mine[bytes - 1] = std::byte{1};
    }
  }
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
  WeightStore store(1);
  EXPECT_EQ(store.describe_pages(), "");
  std::memset(store.allocate(4 * kMiB)->data, 1, static_cast<size_t>(4 * kMiB));
  EXPECT_NE(store.describe_pages().find("2 MiB pages ("), std::string::npos);
}

}  // namespace
}  // namespace quire
