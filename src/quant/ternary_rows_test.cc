// Random bytes against rows that the definition gives, in every format that they become.
#include "quant/ternary_rows.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace quire {
namespace {

struct Case {
  int64_t n_packed, n_in;
  float scale;
  const char* wanted;  // format
};
// 0.1 is no number in half precision, nor is one beyond its largest.
const Case kCases[] = {{3, 512, 0.75F, "tq2_0"}, {1, 256, 2.25F, "tq2_0"},  {2, 256, 0.1F, "f4_64"},
                       {2, 256, 1e5F, "f4_64"},  {5, 192, -0.75F, "f4_64"}, {4, 70, 0.1F, "f32"},
                       {2, 512, 0, "tq2_0"}};

TEST(TernaryRows, AreWhatTheFormulaSays) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.n_in) + " " + std::to_string(c.scale));
    Rng rng(static_cast<uint64_t>(c.n_in));
    std::vector<std::byte> numbers(static_cast<size_t>(c.n_packed * c.n_in));
    for (std::byte& byte : numbers) byte = static_cast<std::byte>(rng.bits());
    const HostWeight weight =
        ternary_weight("w", {.n_packed = c.n_packed, .n_in = c.n_in, .numbers = numbers, .scale = c.scale});
    EXPECT_EQ(weight.format->name, c.wanted);
    ASSERT_EQ(weight.shape, (std::vector<int64_t>{4 * c.n_packed, c.n_in}));
    ASSERT_EQ(weight.stored_bytes(), std::ssize(numbers));
    std::vector<std::byte> room;
    std::vector<float> block(static_cast<size_t>(weight.format->block));
    for (int64_t row = 0; row < weight.n_rows(); ++row) {  // each asked for by itself
      const std::byte* at = weight.rows(row, 1, room);
      for (int64_t k = 0; k < c.n_in; ++k) {
        if (k % weight.format->block == 0) {
          weight.format->decode(at, block.data());
          at += weight.format->bytes;
        }
        const auto byte = static_cast<unsigned>(numbers[static_cast<size_t>(row % c.n_packed * c.n_in + k)]);
        const auto number = static_cast<float>(byte >> (2 * (row / c.n_packed)) & 3U) - 1;
        ASSERT_EQ(block[static_cast<size_t>(k % weight.format->block)], c.scale * number) << row << ' ' << k;
      }
    }
    std::vector<std::byte> again;
    const std::byte* all = weight.rows(0, weight.n_rows(), again);
    const std::byte* last = weight.rows(weight.n_rows() - 1, 1, room);
    EXPECT_TRUE(std::equal(last, last + weight.row_bytes(), all + (weight.n_rows() - 1) * weight.row_bytes()));
  }
}

}  // namespace
}  // namespace quire
