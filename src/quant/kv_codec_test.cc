// Every KV codec: rows come back as the codec rounds them, from the documented places, and no row disturbs another.
#include "quant/kv_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "quant/f16.h"
#include "quant/rotation.h"

namespace quire {
namespace {

// The nearest of all numbers of e4m3, of two as near the one with an even last bit.
float nearest_e4m3(float x) {
  int best = 0;
  for (int code = 0; code < 0x7f; ++code) {
    const float distance = std::fabs(std::fabs(x) - e4m3_to_f32(static_cast<uint8_t>(code)));
    const float least = std::fabs(std::fabs(x) - e4m3_to_f32(static_cast<uint8_t>(best)));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return std::copysign(e4m3_to_f32(static_cast<uint8_t>(best)), x);
}

// What a codec may make of a row. A new codec fails EveryCodecHasItsRounding until it is added.
std::vector<float> as_stored(const KvCodec& of, std::vector<float> row, bool is_key) {
  const std::string_view codec = is_key ? of.keys : of.values;
  const bool rotates = codec == "q4" || ((codec == "q8" || codec == "f8") && is_key);
  const int dim = static_cast<int>(row.size());
  if (rotates) rotate_key(row.data(), dim, row.data());
  float amax = 0.0F;
  for (const float x : row) amax = std::max(amax, std::fabs(x));
  const float farthest = std::find(row.begin(), row.end(), -amax) != row.end() ? -amax : amax;
  for (float& x : row) {
    if (codec == "bf16") x = bf16_to_f32(f32_to_bf16(x));
    if (codec == "f16") x = f16_to_f32(f32_to_f16(x));
    if (codec == "f8") x = nearest_e4m3(x);
    if (codec == "q4") x = farthest / -8.0F * std::min(7.0F, std::nearbyint(x * (-8.0F / farthest)));
    if (codec == "q8") x = amax / 127.0F * std::nearbyint(x * (127.0F / amax));
  }
  if (rotates) unrotate_key(row.data(), dim);
  return row;
}

TEST(KvCodecs, EveryCodecHasItsRounding) {
  std::set<std::string> registered;
  for (const KvCodec* codec : kv_codecs()) {
    EXPECT_TRUE(registered.insert(std::string(codec->name)).second) << codec->name;
    EXPECT_EQ(find_kv_codec(codec->name), codec);
  }
  EXPECT_EQ(registered, (std::set<std::string>{"bf16", "f16", "f32", "f8", "k8v4", "kivi2", "q4", "q8"}));
  EXPECT_EQ(find_kv_codec("f99"), nullptr);
  if (!std::filesystem::exists("src/quant/kv")) GTEST_SKIP() << "not run from the repository's root";
  std::set<std::string> on_disk;
  for (const auto& entry : std::filesystem::directory_iterator("src/quant/kv")) on_disk.insert(entry.path().stem());
  EXPECT_EQ(registered, on_disk);
}

class Codec : public testing::TestWithParam<const KvCodec*> {
 protected:
  using Put = void (*)(std::byte*, int, int, const float*);
  using Get = void (*)(const std::byte*, int, int, float*);

  // Fills a strip row by row in a scattered order, twice (the second time over old rows), and reads all of it back.
  static void check_rows(int dim, Put put, Get get, bool is_key) {
    const KvCodec& codec = *GetParam();
    const auto strip_bytes = static_cast<size_t>((is_key ? codec.k_row_bytes : codec.v_row_bytes)(dim)*kStripTokens);
    constexpr size_t kGuard = 64;
    std::vector<std::byte> memory(strip_bytes + 2 * kGuard, std::byte{0xa5});
    std::byte* strip = memory.data() + kGuard;
    Rng rng(static_cast<uint64_t>(dim));
    std::vector<std::vector<float>> rows(kStripTokens, std::vector<float>(static_cast<size_t>(dim)));
    std::vector<float> back(static_cast<size_t>(dim));
    for (int i = 0; i < 2 * kStripTokens; ++i) {
      const int t = i * 7 % kStripTokens;
      auto& row = rows[static_cast<size_t>(t)];
      for (float& v : row) v = rng.normal();
      put(strip, t, dim, row.data());
    }
    for (int t = 0; t < kStripTokens; ++t) {
      get(strip, t, dim, back.data());
      ASSERT_EQ(back, as_stored(codec, rows[static_cast<size_t>(t)], is_key)) << "t " << t << " dim " << dim;
    }
    for (size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(memory[i], std::byte{0xa5});
      ASSERT_EQ(memory[kGuard + strip_bytes + i], std::byte{0xa5});
    }
  }
};

TEST_P(Codec, KeysComeBack) {
  if (GetParam()->packs()) GTEST_SKIP() << "whole strips: kv_packed_test";
  for (const int dim : {1, 2, 3, 7, 16, 17, 32, 48, 64, 80, 105, 128, 256, 511, 512, 576})
    check_rows(dim, GetParam()->put_k, GetParam()->get_k, true);
}

TEST_P(Codec, ValuesComeBack) {
  if (GetParam()->packs()) GTEST_SKIP() << "whole strips: kv_packed_test";
  for (const int dim : {1, 2, 3, 7, 16, 17, 32, 48, 64, 80, 105, 128, 256, 511, 512, 576})
    check_rows(dim, GetParam()->put_v, GetParam()->get_v, false);
}

// A layer claims bytes in multiples of 4 (kv/layout.h), so that strips of 16 tokens begin on a line of 64 bytes.
TEST_P(Codec, AKeyAndItsValueFillWholeWords) {
  const KvCodec& codec = *GetParam();
  for (int dim = 1; dim <= kMaxHeadDim; ++dim)
    EXPECT_EQ((codec.k_row_bytes(dim) + codec.v_row_bytes(dim)) % 4, 0) << dim;
}

// What is not finite stays so in its whole row or where it stood, and in no other row; zeros are zeros.
TEST_P(Codec, ARowThatIsNotFiniteIsNoOtherRowsMatter) {
  if (GetParam()->packs()) GTEST_SKIP() << "whole strips: kv_packed_test";
  const KvCodec& codec = *GetParam();
  constexpr int kDim = 24;
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (const int at : {0, 5, kDim - 1}) {
      std::vector<float> strip(
          static_cast<size_t>(std::max(codec.k_row_bytes(kDim), codec.v_row_bytes(kDim)) * kStripTokens) /
              sizeof(float),
          NAN);
      auto* bytes = reinterpret_cast<std::byte*>(strip.data());
      std::vector<float> row(kDim, 0.5F);
      std::vector<float> back(kDim);
      for (const auto& [put, get] : {std::pair(codec.put_k, codec.get_k), std::pair(codec.put_v, codec.get_v)}) {
        row.assign(kDim, 0.0F);
        for (int t = 0; t < kStripTokens; ++t) put(bytes, t, kDim, row.data());
        row[static_cast<size_t>(at)] = bad;
        put(bytes, 7, kDim, row.data());
        for (int t = 0; t < kStripTokens; ++t) {
          get(bytes, t, kDim, back.data());
          if (t == 7) {
            EXPECT_FALSE(std::isfinite(back[static_cast<size_t>(at)])) << bad << " at " << at;
          } else {
            EXPECT_EQ(back, std::vector<float>(kDim, 0.0F)) << bad << " at " << at << ", row " << t;
          }
        }
      }
    }
  }
}

TEST_P(Codec, ARowsBytesGrowWithItsWidth) {
  for (const auto row_bytes : {GetParam()->k_row_bytes, GetParam()->v_row_bytes}) {
    for (int dim = 16; dim <= kMaxHeadDim; dim += 16) {
      EXPECT_GT(row_bytes(dim), 0);
      EXPECT_GE(row_bytes(dim + 16), row_bytes(dim));
      EXPECT_GT(row_bytes(dim + 32), row_bytes(dim));
    }
  }
}

TEST(KvCodecs, ThoseThatSomeModelsCannotBearAreForResearch) {
  std::set<std::string_view> found;
  for (const KvCodec* codec : kv_codecs()) {
    if (codec->for_research) found.insert(codec->name);
  }
  EXPECT_EQ(found, (std::set<std::string_view>{"f8", "kivi2", "q4"}));
}

TEST(KvCodecs, AreFoundByTheFormsOfKeysAndValues) {
  for (const KvCodec* codec : kv_codecs()) EXPECT_EQ(find_kv_codec(codec->keys, codec->values), codec) << codec->name;
  EXPECT_EQ(find_kv_codec("q8", "q4"), find_kv_codec("k8v4"));
  EXPECT_EQ(find_kv_codec("q4", "q8"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, Codec, testing::ValuesIn(kv_codecs().begin(), kv_codecs().end()), [](const auto& row) {
  return std::string(row.param->name);
});

TEST(KvF16, KeysLieTransposedAndValuesInRows) {
  const KvCodec& codec = *find_kv_codec("f16");
  constexpr int kDim = 32;
  std::vector<uint16_t> strip(static_cast<size_t>(kDim * kStripTokens));
  auto* bytes = reinterpret_cast<std::byte*>(strip.data());
  std::vector<float> row(kDim);
  for (int d = 0; d < kDim; ++d) row[static_cast<size_t>(d)] = static_cast<float>(d + 1);
  codec.put_k(bytes, 5, kDim, row.data());
  for (int d = 0; d < kDim; ++d)
    EXPECT_EQ(strip[static_cast<size_t>(d * kStripTokens + 5)], f32_to_f16(static_cast<float>(d + 1)));
  std::fill(strip.begin(), strip.end(), uint16_t{0});
  codec.put_v(bytes, 5, kDim, row.data());
  for (int d = 0; d < kDim; ++d)
    EXPECT_EQ(strip[static_cast<size_t>(5 * kDim + d)], f32_to_f16(static_cast<float>(d + 1)));
}

TEST(KvBF16, ComponentsOfKeysAndTokensOfValuesLieInPairs) {
  const KvCodec& codec = *find_kv_codec("bf16");
  constexpr int kDim = 7;
  EXPECT_EQ(codec.k_row_bytes(kDim), 16);
  std::vector<uint16_t> strip(8 * kStripTokens, 0xffff);
  auto* bytes = reinterpret_cast<std::byte*>(strip.data());
  std::vector<float> row(kDim);
  for (int d = 0; d < kDim; ++d) row[static_cast<size_t>(d)] = static_cast<float>(d + 1);
  const auto component = [&](int d) { return f32_to_bf16(static_cast<float>(d + 1)); };
  codec.put_k(bytes, 5, kDim, row.data());
  for (int d = 0; d < kDim; ++d)
    EXPECT_EQ(strip[static_cast<size_t>((d / 2 * kStripTokens + 5) * 2 + d % 2)], component(d));
  EXPECT_EQ(strip[(3 * kStripTokens + 5) * 2 + 1], 0) << "the last one's partner";
  codec.put_v(bytes, 5, kDim, row.data());
  for (int d = 0; d < kDim; ++d) EXPECT_EQ(strip[static_cast<size_t>((2 * kDim + d) * 2 + 1)], component(d));
}

// Against the table of the format: 0, the least number, the least normal one, 1, the largest, and NaN.
TEST(KvF8, CodesAreThoseOfTheStandard) {
  EXPECT_EQ(e4m3_to_f32(0x00), 0.0F);
  EXPECT_EQ(e4m3_to_f32(0x01), 0x1p-9F);
  EXPECT_EQ(e4m3_to_f32(0x08), 0x1p-6F);
  EXPECT_EQ(e4m3_to_f32(0x38), 1.0F);
  EXPECT_EQ(e4m3_to_f32(0xb9), -1.125F);
  EXPECT_EQ(e4m3_to_f32(0x7e), 448.0F);
  EXPECT_TRUE(std::isnan(e4m3_to_f32(0x7f)));
  const KvCodec& codec = *find_kv_codec("f8");
  std::vector<std::byte> strip(static_cast<size_t>(codec.k_row_bytes(8) * kStripTokens));
  std::vector<float> row = {1e9F, -1e9F, 463.0F, 465.0F, 0x1p-10F, 0x1.8p-9F, 1e-30F, -0.0F};
  codec.put_v(strip.data(), 3, 8, row.data());
  codec.get_v(strip.data(), 3, 8, row.data());
  EXPECT_EQ(row, (std::vector<float>{448.0F, -448.0F, 448.0F, 448.0F, 0.0F, 0x1p-8F, 0.0F, -0.0F}));
}

TEST(KvQ4, TwoComponentsShareAByte) {
  const KvCodec& codec = *find_kv_codec("q4");
  constexpr int kDim = 64;
  EXPECT_EQ(codec.k_row_bytes(kDim), 36);
  constexpr auto kScales = static_cast<size_t>(kStripTokens) * sizeof(float);
  std::vector<std::byte> strip(static_cast<size_t>(codec.k_row_bytes(kDim) * kStripTokens));
  std::vector<float> row(kDim, 0.0F);
  row[0] = 8.0F;  // as stored: the farthest, so −8 of the scale −1
  row[1] = -3.0F;
  row[16] = -7.0F;
  row[63] = 1.0F;
  std::vector<float> given(row);
  unrotate_key(given.data(), kDim);  // exact: sums of integers
  codec.put_k(strip.data(), 5, kDim, given.data());
  EXPECT_EQ(load_as<float>(strip.data() + 5 * sizeof(float)), -1.0F);
  EXPECT_EQ(strip[kScales + 5], std::byte{0 | 11 << 4});
  EXPECT_EQ(strip[kScales + 8 * kStripTokens + 5], std::byte{15 | 8 << 4});
  EXPECT_EQ(strip[kScales + 31 * kStripTokens + 5], std::byte{8 | 7 << 4});
  strip.assign(strip.size(), std::byte{0});
  codec.put_v(strip.data(), 5, kDim, given.data());
  EXPECT_EQ(strip[kScales + 5 * 32], std::byte{0 | 15 << 4}) << "components 0 and 16";
  EXPECT_EQ(strip[kScales + 5 * 32 + 1], std::byte{11 | 8 << 4}) << "components 1 and 17";
  EXPECT_EQ(strip[kScales + 5 * 32 + 31], std::byte{8 | 7 << 4}) << "components 47 and 63";
}

TEST(KvQ8, ScalesLieBeforeTransposedKeysAndRowsOfValues) {
  const KvCodec& codec = *find_kv_codec("q8");
  constexpr int kDim = 32;
  EXPECT_EQ(codec.k_row_bytes(kDim), kDim + 4);
  constexpr auto kScales = static_cast<size_t>(kStripTokens) * sizeof(float);
  std::vector<std::byte> strip(static_cast<size_t>((kDim + 4) * kStripTokens));
  const auto scale = [&strip](int t) {
    float value = 0.0F;
    std::memcpy(&value, strip.data() + static_cast<size_t>(t) * sizeof value, sizeof value);
    return value;
  };
  std::vector<float> row(kDim);
  for (int d = 0; d < kDim; ++d) row[static_cast<size_t>(d)] = static_cast<float>(d - 31) * 0.5F;
  std::vector<float> key(row);
  unrotate_key(key.data(), kDim);  // exact: sums of halves
  codec.put_k(strip.data(), 5, kDim, key.data());
  EXPECT_EQ(scale(5), 15.5F / 127.0F);
  EXPECT_EQ(static_cast<int8_t>(strip[kScales + 5]), -127);
  EXPECT_EQ(static_cast<int8_t>(strip[kScales + 30 * kStripTokens + 5]), -4);  // −0.5 · 127 / 15.5 = −4.1
  strip.assign(strip.size(), std::byte{0});
  codec.put_v(strip.data(), 5, kDim, row.data());
  EXPECT_EQ(scale(5), 15.5F / 127.0F);
  EXPECT_EQ(static_cast<int8_t>(strip[kScales + 5 * kDim]), -127);
  EXPECT_EQ(static_cast<int8_t>(strip[kScales + 5 * kDim + 30]), -4);
}

TEST(KvQ8, ErrorIsHalfAStepAtMost) {
  const KvCodec& codec = *find_kv_codec("q8");
  constexpr int kDim = 64;
  std::vector<std::byte> strip(static_cast<size_t>(codec.k_row_bytes(kDim) * kStripTokens));
  std::vector<float> row(kDim);
  std::vector<float> back(kDim);
  Rng rng(3);
  for (const float spread : {1e-30F, 1e-3F, 1.0F, 1e5F, 1e36F}) {
    for (int i = 0; i < 200; ++i) {
      float amax = 0.0F;
      for (float& x : row) amax = std::max(amax, std::fabs(x = rng.normal() * spread));
      codec.put_v(strip.data(), i % kStripTokens, kDim, row.data());
      codec.get_v(strip.data(), i % kStripTokens, kDim, back.data());
      // Half a step, and what rounding the product and the scale adds to it.
      const float most = amax / 127.0F * (0.5F + 1e-4F);
      for (size_t d = 0; d < back.size(); ++d) ASSERT_LE(std::fabs(back[d] - row[d]), most) << spread;
    }
  }
}

// Two components thirty times the others, as biases make them: with one scale a row and no rotation the error of a
// score was 3.8 times what it is now.
TEST(KvQ8, LargeComponentsOfAKeyLeaveTheOthersTheirDigits) {
  const KvCodec& codec = *find_kv_codec("q8");
  constexpr int kDim = 128;
  std::vector<std::byte> strip(static_cast<size_t>(codec.k_row_bytes(kDim) * kStripTokens));
  std::vector<float> key(kDim);
  std::vector<float> back(kDim);
  Rng rng(5);
  double squares = 0;
  constexpr int kRows = 400;
  for (int i = 0; i < kRows; ++i) {
    for (float& x : key) x = rng.normal();
    key[20] += 30.0F;
    key[85] -= 30.0F;
    codec.put_k(strip.data(), i % kStripTokens, kDim, key.data());
    codec.get_k(strip.data(), i % kStripTokens, kDim, back.data());
    double error = 0;
    for (size_t d = 0; d < key.size(); ++d) error += double{rng.normal()} * (double{back[d]} - double{key[d]});
    squares += error * error;
  }
  EXPECT_LT(std::sqrt(squares / kRows), 0.25) << "the error of a score with a query of length √128";
}

TEST(Rotation, KeepsProductsAndLengths) {
  for (const int dim : {1, 2, 6, 16, 48, 64, 80, 96, 128, 256, 512, 576}) {
    const auto n = static_cast<size_t>(dim);
    Rng rng(static_cast<uint64_t>(dim));
    std::vector<float> q(n);
    std::vector<float> k(n);
    std::vector<float> rotated_q(n);
    std::vector<float> rotated_k(n);
    for (float& x : q) x = rng.normal();
    for (float& x : k) x = rng.normal();
    rotate_query(q.data(), dim, rotated_q.data());
    rotate_key(k.data(), dim, rotated_k.data());
    double before = 0;
    double after = 0;
    for (size_t d = 0; d < n; ++d) before += double{q[d]} * double{k[d]};
    for (size_t d = 0; d < n; ++d) after += double{rotated_q[d]} * double{rotated_k[d]};
    EXPECT_NEAR(before, after, 1e-4) << dim;
    unrotate_key(rotated_k.data(), dim);
    for (size_t d = 0; d < n; ++d) EXPECT_NEAR(rotated_k[d], k[d], 1e-5) << dim;
  }
}

// One large component is spread over its run: that is what it is for.
// By the definition in docs/numerics.md, however many components a register holds.
TEST(Rotation, HasTheBitsOfItsPlainRounds) {
  for (int dim = 1; dim <= 600; ++dim) {
    Rng rng(static_cast<uint64_t>(dim));
    std::vector<float> x(static_cast<size_t>(dim));
    for (float& v : x) v = rng.unit() < 0.1 ? -0.0F : rng.normal();
    std::vector<float> plain(x.size());
    for (int d = 0; d < dim; ++d)
      plain[static_cast<size_t>(d)] = rotation_detail::with_sign(x[static_cast<size_t>(d)], d);
    const auto run = static_cast<size_t>(dim & -dim);
    for (size_t half = 1; half < run; half *= 2) {
      for (size_t d = 0; d < plain.size(); ++d) {
        if ((d & half) != 0) continue;
        const float a = plain[d];
        const float b = plain[d + half];
        plain[d] = a + b;
        plain[d + half] = a - b;
      }
    }
    rotate_query(x.data(), dim, x.data());
    ASSERT_EQ(std::memcmp(x.data(), plain.data(), x.size() * sizeof(float)), 0) << dim;
  }
}

TEST(Rotation, SpreadsALargeComponent) {
  std::vector<float> x(128, 0.0F);
  x[77] = 128.0F;
  rotate_key(x.data(), 128, x.data());
  for (const float y : x) EXPECT_EQ(std::fabs(y), 1.0F);
}

// 127 / amax is finite down to 2^-120; what is smaller counts as nothing, and is never multiplied by infinity.
TEST(KvQ8, TinyRowsBecomeZeros) {
  const KvCodec& codec = *find_kv_codec("q8");
  std::vector<std::byte> strip(static_cast<size_t>(codec.k_row_bytes(2) * kStripTokens));
  const auto stored = [&](std::vector<float> row) {
    codec.put_v(strip.data(), 3, 2, row.data());
    codec.get_v(strip.data(), 3, 2, row.data());
    return row;
  };
  EXPECT_EQ(stored({0x1p-120F, 0.0F}), (std::vector<float>{0x1p-120F / 127.0F * 127.0F, 0.0F}));
  EXPECT_EQ(stored({-0x1p-121F, 1e-45F}), (std::vector<float>{0.0F, 0.0F}));
  EXPECT_EQ(stored({3.4e38F, -3.4e38F}), (std::vector<float>{3.4e38F / 127.0F * 127.0F, 3.4e38F / 127.0F * -127.0F}));
}

}  // namespace
}  // namespace quire
