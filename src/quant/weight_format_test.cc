// Every weight format: what it stores, what its panels hold. A new header in quant/weights/ fails
// AreAllTestedHereAndAllOnDisk until it is listed here.
#include "quant/weight_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "quant/encode.h"
#include "quant/plain_vec_testing.h"
#include "quant/weights/bf16.h"
#include "quant/weights/f16.h"
#include "quant/weights/f32.h"
#include "quant/weights/f4_64.h"
#include "quant/weights/f8_128.h"
#include "quant/weights/f8_32.h"
#include "quant/weights/iq1_m.h"
#include "quant/weights/iq1_s.h"
#include "quant/weights/iq2_s.h"
#include "quant/weights/iq2_xs.h"
#include "quant/weights/iq2_xxs.h"
#include "quant/weights/iq3_s.h"
#include "quant/weights/iq3_xxs.h"
#include "quant/weights/iq4_nl.h"
#include "quant/weights/iq4_xs.h"
#include "quant/weights/mxfp4.h"
#include "quant/weights/nvfp4.h"
#include "quant/weights/q2_k.h"
#include "quant/weights/q3_k.h"
#include "quant/weights/q4_0.h"
#include "quant/weights/q4_1.h"
#include "quant/weights/q4_k.h"
#include "quant/weights/q4_z128.h"
#include "quant/weights/q4_z32.h"
#include "quant/weights/q5_0.h"
#include "quant/weights/q5_1.h"
#include "quant/weights/q5_k.h"
#include "quant/weights/q6_k.h"
#include "quant/weights/q8_0.h"
#include "quant/weights/q8_z32.h"
#include "quant/weights/tq1_0.h"
#include "quant/weights/tq2_0.h"

namespace quire {
namespace {

template <class... Formats>
struct FormatList {
  using Types = testing::Types<Formats...>;
  static std::set<std::string> names() { return {std::string(Formats::kName)...}; }
};
using Tested = FormatList<BF16,
                          F16,
                          F32,
                          F4_64,
                          F8_128,
                          F8_32,
                          IQ1_M,
                          IQ1_S,
                          IQ2_S,
                          IQ2_XS,
                          IQ2_XXS,
                          IQ3_S,
                          IQ3_XXS,
                          IQ4_NL,
                          IQ4_XS,
                          MXFP4,
                          NVFP4,
                          Q2_K,
                          Q3_K,
                          Q4_0,
                          Q4_1,
                          Q4_K,
                          Q4_Z128,
                          Q4_Z32,
                          Q5_0,
                          Q5_1,
                          Q5_K,
                          Q6_K,
                          Q8_0,
                          Q8_Z32,
                          TQ1_0,
                          TQ2_0>;

TEST(WeightFormats, AreAllTestedHereAndAllOnDisk) {
  std::set<std::string> registered;
  for (const WeightFormat* format : weight_formats()) {
    EXPECT_TRUE(registered.insert(std::string(format->name)).second) << format->name;
    EXPECT_EQ(find_weight_format(format->name), format);
    EXPECT_EQ(find_weight_format(format->ggml_type), format->is_in_gguf() ? format : nullptr);
  }
  EXPECT_EQ(registered, Tested::names());
  if (!std::filesystem::exists("src/quant/weights")) GTEST_SKIP() << "not run from the repository's root";
  std::set<std::string> on_disk;
  for (const auto& entry : std::filesystem::directory_iterator("src/quant/weights"))
    on_disk.insert(entry.path().stem());
  EXPECT_EQ(registered, on_disk);
}

TEST(WeightFormats, UnknownOnesAreNull) {
  EXPECT_EQ(find_weight_format("q9_9"), nullptr);
  EXPECT_EQ(find_weight_format(uint32_t{9999}), nullptr);
}

template <class T>
class Format : public testing::Test {
 protected:
  static constexpr int kBlockBytes = T::kBytes;
  // Blocks of random values, as encode makes them.
  static std::vector<std::byte> random_blocks(int n, uint64_t seed) {
    Rng rng(seed);
    std::vector<std::byte> out(static_cast<size_t>(n * T::kBytes));
    std::array<float, T::kBlock> values;
    for (int b = 0; b < n; ++b) {
      for (float& v : values) v = rng.normal();
      encode_as<T>(values.data(), out.data() + b * T::kBytes, {});
    }
    return out;
  }
};
TYPED_TEST_SUITE(Format, Tested::Types);

TYPED_TEST(Format, TheRegistryCallsTheStruct) {
  const WeightFormat* format = find_weight_format(TypeParam::kName);
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(format->ggml_type, TypeParam::kGgmlType);
  EXPECT_EQ(format->block, TypeParam::kBlock);
  EXPECT_EQ(format->bytes, TypeParam::kBytes);
  EXPECT_EQ(format->integer, TypeParam::kInteger);
  EXPECT_EQ(format->row_bytes(64 * TypeParam::kBlock), 64 * TypeParam::kBytes);
  const auto block = this->random_blocks(1, 3);
  std::array<float, TypeParam::kBlock> values;
  std::array<float, TypeParam::kBlock> wanted;
  format->decode(block.data(), values.data());
  TypeParam::decode(block.data(), wanted.data());
  EXPECT_EQ(values, wanted);
  std::vector<std::byte> again(block.size());
  std::vector<std::byte> wanted_again(block.size());
  format->encode(values.data(), again.data());
  encode_as<TypeParam>(values.data(), wanted_again.data(), {});
  EXPECT_EQ(again, wanted_again);
}

// Where the encoder searches for scales, several blocks may decode to nearly the same numbers: encode_test.cc has
// those.
TYPED_TEST(Format, DecodedBlocksEncodeToThemselves) {
  if constexpr (requires { typename TypeParam::Levels; }) GTEST_SKIP() << "searches for its scales";
  constexpr int kBlocks = 4096;
  const auto blocks = this->random_blocks(kBlocks, 1);
  for (int b = 0; b < kBlocks; ++b) {
    const std::byte* block = blocks.data() + b * TypeParam::kBytes;
    std::array<float, TypeParam::kBlock> values;
    TypeParam::decode(block, values.data());
    std::array<std::byte, TypeParam::kBytes> again;
    encode_as<TypeParam>(values.data(), again.data(), {});
    ASSERT_TRUE(std::equal(again.begin(), again.end(), block)) << b;
  }
}

TYPED_TEST(Format, ZerosStayZeros) {
  const std::array<float, TypeParam::kBlock> zeros{};
  std::array<std::byte, TypeParam::kBytes> block;
  encode_as<TypeParam>(zeros.data(), block.data(), {});
  std::array<float, TypeParam::kBlock> back;
  back.fill(1.0F);
  TypeParam::decode(block.data(), back.data());
  EXPECT_EQ(back, zeros);
}

// The float formats' panels of kDepth columns: rows beyond the matrix and columns beyond its depth are zeros.
template <class T>
constexpr int kDepth = T::kBlock == 1 ? kPanelDepth : T::kBlock;

template <class T>
void check_float_panel(int depth, int n_rows, const std::vector<std::byte>& source) {
  constexpr int kRowBytes = kDepth<T> / T::kBlock * T::kBytes;
  std::array<const std::byte*, kPanelRows> rows{};
  for (int r = 0; r < n_rows; ++r) rows[static_cast<size_t>(r)] = source.data() + r * kRowBytes;
  alignas(64) std::array<std::byte, T::kPanelBytes*(kDepth<T> / kPanelDepth)> panel;
  panel.fill(std::byte{0xee});
  T::pack(rows.data(), depth, panel.data());
  std::vector<std::byte> row(kRowBytes);
  for (int r = 0; r < kPanelRows; ++r) {
    T::unpack(panel.data(), r, kDepth<T>, row.data());
    const auto kept = static_cast<size_t>(r < n_rows ? depth / T::kBlock * T::kBytes : 0);
    ASSERT_TRUE(std::equal(row.begin(), row.begin() + static_cast<ptrdiff_t>(kept), source.begin() + r * kRowBytes));
    ASSERT_TRUE(std::all_of(row.begin() + static_cast<ptrdiff_t>(kept), row.end(),
                            [](std::byte b) { return b == std::byte{0}; }));
  }
  std::array<float, kDepth<T>> wanted;
  for (int r = 0; r < kPanelRows; ++r) {
    wanted.fill(0);
    for (int k = 0; r < n_rows && k < depth; k += T::kBlock) {
      T::decode(rows[static_cast<size_t>(r)] + k / T::kBlock * T::kBytes, wanted.data() + k);
    }
    for (int k = 0; k < kDepth<T>; k += 2) {
      std::array<PlainVec::F, 2> two;
      T::template load_two<PlainVec>(panel.data(), k, two.data());
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(two[static_cast<size_t>(i)][static_cast<size_t>(r)], wanted[static_cast<size_t>(k + i)])
            << "row " << r << " k " << k + i;
      }
    }
  }
}

template <class T, int J>
void put_values(const std::byte* panel, std::array<std::array<float, kPanelDepth>, kPanelRows>& out) {
  if constexpr (J < kPanelDepth / 4) {
    const PlainVec::U bytes = T::template load_quad<PlainVec, J>(panel);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_LE(bytes[i], T::kMax);
      out[i / 4][4 * J + i % 4] = static_cast<float>(bytes[i] - T::kZero);
    }
    put_values<T, J + 1>(panel, out);
  }
}

// What a kernel reads from a panel is what decode gives.
template <class T>
void check_kernel_view(const std::byte* panel, const std::byte* scales, const std::byte* const* rows) {
  const typename T::template Scales<PlainVec> all(scales);
  for (int b = 0; b < T::kSuper; ++b) {
    std::array<std::array<float, kPanelDepth>, kPanelRows> values;
    put_values<T, 0>(panel + b * T::kPanelBytes, values);
    for (size_t r = 0; r < kPanelRows; ++r) {
      if (rows[r] == nullptr) continue;
      std::array<float, T::kBlock> wanted;
      T::decode(rows[r], wanted.data());
      for (int k = 0; k < kPanelDepth; ++k) {
        const int scale_group = (b * kPanelDepth + k) / T::kScaleGroup;
        float got = all.scale(scale_group)[r] * values[r][static_cast<size_t>(k)];
        if constexpr (T::kMins) got += all.min(scale_group)[r];
        ASSERT_EQ(got, wanted[static_cast<size_t>(b * kPanelDepth + k)]) << T::kName << " row " << r << " k " << k;
      }
    }
  }
}

// The same bytes; where others mean the same (kHasSpares), the same numbers.
template <class T>
void check_row_given_back(const std::array<std::byte, T::kBytes>& row,
                          const std::byte* wanted,
                          const std::array<float, T::kBlock>& values) {
  if constexpr (requires { T::kHasSpares; }) {
    std::array<float, T::kBlock> numbers;
    T::decode(wanted, numbers.data());
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(numbers[i])) << i;
    }
  } else {
    ASSERT_TRUE(std::equal(row.begin(), row.end(), wanted));
  }
}

// The integer formats': whole blocks, stored unsigned.
template <class T>
void check_integer_panel(int n_rows, const std::vector<std::byte>& source, bool finite) {
  std::array<const std::byte*, kPanelRows> rows{};
  for (int r = 0; r < n_rows; ++r) rows[static_cast<size_t>(r)] = source.data() + r * T::kBytes;
  alignas(64) std::array<std::byte, T::kSuper * T::kPanelBytes> panel;
  alignas(64) std::array<std::byte, T::kPanelScaleBytes> scales;
  panel.fill(std::byte{0xee});
  scales.fill(std::byte{0xee});
  T::pack(rows.data(), panel.data(), scales.data());
  if (finite) check_kernel_view<T>(panel.data(), scales.data(), rows.data());
  std::array<std::byte, T::kBytes> row;
  std::array<float, T::kBlock> values;
  for (int r = 0; r < kPanelRows; ++r) {
    T::unpack(panel.data(), scales.data(), r, row.data());
    T::decode(row.data(), values.data());
    if (r < n_rows) {
      check_row_given_back<T>(row, rows[static_cast<size_t>(r)], values);
      continue;
    }
    ASSERT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v == 0; })) << "row " << r;
  }
}

TYPED_TEST(Format, PanelsGiveBackTheRowsTheyWerePackedFrom) {
  constexpr int kBlocksPerRow = TypeParam::kInteger ? 1 : kDepth<TypeParam> / TypeParam::kBlock;
  const auto source = this->random_blocks(kPanelRows * kBlocksPerRow, 5);
  Rng rng(6);
  std::vector<std::byte> random_bits(source.size());  // what no encoder writes, but a file may hold
  for (std::byte& b : random_bits) b = static_cast<std::byte>(rng.bits());
  for (int n_rows = 0; n_rows <= kPanelRows; ++n_rows) {
    if constexpr (TypeParam::kInteger) {
      check_integer_panel<TypeParam>(n_rows, source, true);
      check_integer_panel<TypeParam>(n_rows, random_bits, false);
    } else {
      for (int depth = TypeParam::kBlock; depth <= kDepth<TypeParam>; depth += TypeParam::kBlock) {
        check_float_panel<TypeParam>(depth, n_rows, source);
      }
    }
  }
}

TEST(FormatF32, KeepsEveryBit) {
  Rng rng(11);
  for (int i = 0; i < 100000; ++i) {
    const auto bits = static_cast<uint32_t>(rng.bits());
    std::array<std::byte, 4> block;
    store_as<uint32_t>(block.data(), bits);
    std::array<std::byte, 4> again;
    float value = 0;
    F32::decode(block.data(), &value);
    F32::encode(&value, again.data());
    ASSERT_EQ(block, again);
  }
}

// Exactly, of every number, zero and scale.
template <class T>
void check_every_number(int bits) {
  const int n = 1 << bits;
  for (uint16_t scale = 1; scale < 0x7c00; scale = static_cast<uint16_t>(scale + 37)) {
    for (int zero = 0; zero < n; zero += bits == 4 ? 1 : 17) {
      std::array<uint8_t, T::kBlock> q;
      for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<uint8_t>((i * 7 + scale) % static_cast<size_t>(n));
      std::array<std::byte, T::kBytes> block;
      T::join(scale, static_cast<uint8_t>(zero), q.data(), block.data());
      std::array<float, T::kBlock> values;
      T::decode(block.data(), values.data());
      for (size_t i = 0; i < q.size(); ++i) {
        ASSERT_EQ(double{values[i]}, double{f16_to_f32(scale)} * (q[i] - zero)) << T::kName << ' ' << scale;
      }
    }
  }
}

TEST(FormatsWithZeros, DecodeEveryNumberExactly) {
  check_every_number<Q4_Z32>(4);
  check_every_number<Q4_Z128>(4);
  check_every_number<Q8_Z32>(8);
}

TEST(FormatsOfE4m3, DecodeEveryNumberUnderAnyScale) {
  Rng rng(19);
  for (int round = 0; round < 2000; ++round) {
    const float d = std::exp2(static_cast<float>(rng.between(-100, 100))) * (1.0F + std::fabs(rng.normal()));
    std::array<std::byte, F8_128::kBytes> block;
    store_as<float>(block.data(), d);
    for (size_t i = 0; i < 128; ++i) block[4 + i] = static_cast<std::byte>(2 * i + (round & 1));
    std::array<float, 128> values;
    F8_128::decode(block.data(), values.data());
    for (size_t i = 0; i < 128; ++i) {
      const auto code = static_cast<unsigned>(block[4 + i]);
      const int exponent = static_cast<int>(code >> 3 & 15), fraction = static_cast<int>(code & 7);
      if (exponent == 15 && fraction == 7) {
        ASSERT_TRUE(std::isnan(values[i]));
        continue;
      }
      const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
      ASSERT_EQ(values[i], static_cast<float>(double{d} * (code >= 128 ? -size : size))) << code;
    }
  }
}

// Half of the distance of e4m3's numbers, a sixteenth of a number, and what the scale is larger than it need be.
TEST(FormatsOfE4m3, EncodeToTheNearestNumber) {
  Rng rng(23);
  for (int round = 0; round < 2000; ++round) {
    std::array<float, 32> values;
    for (float& v : values) v = rng.normal() * std::exp2(static_cast<float>(rng.between(-60, 60)));
    std::array<std::byte, F8_32::kBytes> block;
    F8_32::encode(values.data(), block.data());
    std::array<float, 32> back;
    F8_32::decode(block.data(), back.data());
    const double step = double{load_as<float>(block.data())} * 0x1p-10;
    for (size_t i = 0; i < 32; ++i) {
      const double most = std::max(std::fabs(double{values[i]}) / 16, step);
      ASSERT_LE(std::fabs(double{back[i]} - double{values[i]}), most * 1.0001) << round;
    }
  }
}

TEST(FormatQ8, EveryScaleAndNumberSurvives) {
  Rng rng(13);
  for (uint16_t scale = 1; scale < 0x7c00; ++scale) {
    std::array<std::byte, Q8_0::kBytes> block;
    store_as<uint16_t>(block.data(), scale);
    for (int i = 0; i < Q8_0::kBlock; ++i) {
      block[2 + static_cast<size_t>(i)] = static_cast<std::byte>(static_cast<int8_t>(rng.between(-127, 127)));
    }
    block[2 + scale % 32] = static_cast<std::byte>(static_cast<int8_t>(scale % 2 == 0 ? 127 : -127));
    std::array<float, Q8_0::kBlock> values;
    Q8_0::decode(block.data(), values.data());
    const double d = double{f16_to_f32(scale)};
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(double{values[i]}, d * static_cast<int8_t>(block[2 + i])) << scale;
    }
    std::array<std::byte, Q8_0::kBytes> again;
    Q8_0::encode(values.data(), again.data());
    ASSERT_EQ(block, again) << scale;
  }
}

TEST(FormatQ8, ErrorIsHalfAStepAndTheScalesRounding) {
  Rng rng(17);
  for (int round = 0; round < 20000; ++round) {
    std::array<float, Q8_0::kBlock> values;
    const float size = static_cast<float>(std::exp2(static_cast<double>(rng.between(-10, 14))));
    for (float& v : values) v = rng.normal() * size;
    std::array<std::byte, Q8_0::kBytes> block;
    Q8_0::encode(values.data(), block.data());
    std::array<float, Q8_0::kBlock> back;
    Q8_0::decode(block.data(), back.data());
    float amax = 0;
    for (const float v : values) amax = std::max(amax, std::fabs(v));
    const double d = amax / 127.0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double step_error = 0.5001 * d;
      const double scale_error = std::fabs(double{values[i]}) * 0x1p-11 * 1.01 + 0x1p-24 * 127;
      ASSERT_LE(std::fabs(double{back[i]} - double{values[i]}), step_error + scale_error) << round;
    }
  }
}

TEST(FormatQ8, PanelLinesHoldFourDepthsOfSixteenRowsUnsigned) {
  std::vector<std::byte> source(kPanelRows * Q8_0::kBytes);
  std::array<const std::byte*, kPanelRows> rows{};
  for (int r = 0; r < kPanelRows; ++r) {
    std::byte* block = source.data() + r * Q8_0::kBytes;
    store_as<uint16_t>(block, static_cast<uint16_t>(0x3c00 + r));
    for (int k = 0; k < kPanelDepth; ++k) block[2 + k] = static_cast<std::byte>(static_cast<int8_t>(r * 8 - k * 3));
    rows[static_cast<size_t>(r)] = block;
  }
  std::array<std::byte, Q8_0::kPanelBytes> panel;
  std::array<std::byte, Q8_0::kPanelScaleBytes> scales;
  Q8_0::pack(rows.data(), panel.data(), scales.data());
  for (int r = 0; r < kPanelRows; ++r) {
    EXPECT_EQ(load_as<uint16_t>(scales.data() + 2 * r), 0x3c00 + r);
    for (int k = 0; k < kPanelDepth; ++k) {
      const int at = k / 4 * 64 + 4 * r + k % 4;
      const int stored = static_cast<int>(panel[static_cast<size_t>(at)]);
      ASSERT_EQ(stored - Q8_0::kZero, r * 8 - k * 3) << r << " " << k;
      ASSERT_LE(stored, Q8_0::kMax);
    }
  }
}

}  // namespace
}  // namespace quire
