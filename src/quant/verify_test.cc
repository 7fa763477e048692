#include "quant/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quire {
namespace {

HostWeight matrix(const WeightFormat& format, const std::vector<std::byte>& bytes, int64_t n_rows, int64_t n_cols) {
  return HostWeight{"m", &format, {n_rows, n_cols}, bytes};
}

TEST(Verify, FindsTheFirstAndCountsAll) {
  const WeightFormat& f32 = *find_weight_format(std::string_view("f32"));
  std::vector<float> values(300 * 8, 1.0F);
  values[200 * 8 + 3] = NAN;
  values[290 * 8 + 1] = INFINITY;
  values[120 * 8 + 7] = -INFINITY;
  std::vector<std::byte> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  for (const int n_threads : {1, 3}) {
    const BadNumbers bad = find_bad_numbers(matrix(f32, bytes, 300, 8), n_threads);
    EXPECT_EQ(bad.count, 3);
    EXPECT_EQ(bad.row, 120);
    EXPECT_EQ(bad.column, 7);
    EXPECT_EQ(bad.value, -INFINITY);
  }
}

// Two bytes of a block that are all ones make a half-precision scale NaN; without them every block is finite. Of nvfp4
// every block is.
TEST(Verify, AScaleThatIsNoNumberShowsInItsBlock) {
  for (const WeightFormat* format : weight_formats()) {
    if (format->name == "nvfp4") continue;
    std::vector<std::byte> bytes(static_cast<size_t>(3 * format->row_bytes(512)));
    EXPECT_EQ(find_bad_numbers(matrix(*format, bytes, 3, 512), 1).count, 0) << format->name;
    const auto block = static_cast<size_t>(format->row_bytes(512) + format->bytes);  // the second of row 1
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(block), format->bytes, std::byte{0xff});
    const BadNumbers bad = find_bad_numbers(matrix(*format, bytes, 3, 512), 1);
    EXPECT_GT(bad.count, 0) << format->name;
    EXPECT_LE(bad.count, format->block) << format->name;
    EXPECT_EQ(bad.row, 1) << format->name;
    EXPECT_EQ(bad.column / format->block, 1) << format->name;
  }
}

}  // namespace
}  // namespace quire
