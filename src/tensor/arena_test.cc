#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <set>

namespace quire {
namespace {

TEST(Arena, RowsOfAMatrixBeginAtDifferentPlacesOfAPage) {
  constexpr int64_t kRows = 64;
  Arena arena(*Buffer::allocate(16 << 20));
  for (const int64_t n_columns : {1024, 2048, 48, 4096, 16384}) {
    const Tensor t = arena.alloc_rows(kRows, n_columns);
    EXPECT_EQ(t.dim(1), n_columns);
    std::set<uintptr_t> places;
    for (int64_t i = 0; i < kRows; ++i) {
      const auto at = reinterpret_cast<uintptr_t>(t.row<float>(i));
      EXPECT_EQ(at % Arena::kAlign, 0U);
      places.insert(at % 4096);
    }
    EXPECT_EQ(places.size(), 64U) << n_columns;
  }
}

TEST(Arena, WhatIsAllocatedDoesNotOverlapAndComesAgainAfterReset) {
  Arena arena(*Buffer::allocate(1 << 20));
  const auto fill = [&] {
    const Tensor a = arena.alloc_rows(3, 512);
    const Tensor b = arena.alloc(DType::i32, {7});
    const Tensor c = arena.alloc(DType::f32, {2, 5, 2});
    EXPECT_GE(b.data, a.data + (2 * a.stride[0] + 512) * 4);
    EXPECT_GE(c.data, b.data + b.dim(0) * 4);
    EXPECT_GE(arena.mark().used, c.data - a.data + 2 * 5 * 2 * 4);
    EXPECT_TRUE(b.is_dense() && c.is_dense());
    return a.data;
  };
  const std::byte* first = fill();
  const int64_t peak = arena.peak_bytes();
  EXPECT_EQ(peak, arena.mark().used);
  arena.reset();
  EXPECT_EQ(fill(), first);
  EXPECT_EQ(arena.peak_bytes(), peak);
}

}  // namespace
}  // namespace quire
