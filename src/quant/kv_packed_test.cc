// Codecs that pack whole strips: every number comes back as the definition in docs/numerics.md has it, from the
// documented places, and nothing beside a strip is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "quant/f16.h"
#include "quant/kv_codec.h"

namespace quire {
namespace {

const KvCodec& kivi2() { return *find_kv_codec("kivi2"); }

float as_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

// Two bits for numbers that have a step and a least one together.
std::vector<float> as_packed(const std::vector<float>& x) {
  const auto [low, high] = std::ranges::minmax(x);
  const float least = as_bf16(low), step = as_bf16((high - least) * (1.0F / 3.0F));
  std::vector<float> out;
  for (const float v : x) {
    const float steps = step > 0.0F ? (v - least) * (1.0F / step) : 0.0F;
    const float n = steps >= 2.5F ? 3.0F : steps >= 1.5F ? 2.0F : steps >= 0.5F ? 1.0F : 0.0F;
    out.push_back(std::fma(n, step, least));
  }
  return out;
}

// [16][dim] in the form of `codec`, and back.
std::vector<float> through(const std::vector<float>& rows, int dim, bool is_key) {
  const KvCodec& codec = kivi2();
  constexpr size_t kGuard = 64;
  const auto n = static_cast<size_t>((is_key ? codec.k_row_bytes : codec.v_row_bytes)(dim)*kStripTokens);
  std::vector<std::byte> memory(n + 2 * kGuard, std::byte{0xa5});
  (is_key ? codec.pack_k : codec.pack_v)(rows.data(), dim, memory.data() + kGuard);
  std::vector<float> out(rows.size());
  for (int t = 0; t < kStripTokens; ++t)
    (is_key ? codec.get_k : codec.get_v)(memory.data() + kGuard, t, dim, out.data() + int64_t{t} * dim);
  for (size_t i = 0; i < kGuard; ++i) {
    EXPECT_EQ(memory[i], std::byte{0xa5});
    EXPECT_EQ(memory[kGuard + n + i], std::byte{0xa5});
  }
  return out;
}

std::vector<float> some_rows(int dim) {
  Rng rng(static_cast<uint64_t>(dim));
  std::vector<float> out(static_cast<size_t>(kStripTokens) * static_cast<size_t>(dim));
  for (float& x : out) x = rng.normal() * std::ldexp(1.0F, static_cast<int>(rng.between(-3, 3)));
  return out;
}

constexpr int kDims[] = {1, 2, 3, 7, 16, 17, 32, 48, 64, 80, 105, 128, 256, 511, 576};

TEST(KvPacked, SaysWhatRowsLieInUntilThen) {
  for (const KvCodec* codec : kv_codecs()) {
    EXPECT_EQ(codec->packs(), codec->name == "kivi2");
    EXPECT_EQ(codec->put_k == nullptr, codec->packs());
    EXPECT_EQ(codec->pack_k != nullptr, codec->packs());
    EXPECT_EQ(codec->put_v == nullptr, codec->packs());
    EXPECT_EQ(codec->pack_v != nullptr, codec->packs());
  }
  EXPECT_EQ(kivi2().tail, "f16");
}

TEST(KvKIVI2, KeysHaveAStepForEachComponentOfAStrip) {
  for (const int dim : kDims) {
    const std::vector<float> rows = some_rows(dim), got = through(rows, dim, true);
    for (int d = 0; d < dim; ++d) {
      std::vector<float> column, back;
      for (int t = 0; t < kStripTokens; ++t) {
        column.push_back(rows[static_cast<size_t>(t * dim + d)]);
        back.push_back(got[static_cast<size_t>(t * dim + d)]);
      }
      ASSERT_EQ(back, as_packed(column)) << dim << ", component " << d;
    }
  }
}

TEST(KvKIVI2, ValuesHaveAStepFor32ComponentsOfAToken) {
  for (const int dim : kDims) {
    const std::vector<float> rows = some_rows(dim), got = through(rows, dim, false);
    for (int t = 0; t < kStripTokens; ++t) {
      for (int d = 0; d < dim; d += 32) {
        const auto at = static_cast<std::ptrdiff_t>(t * dim + d);
        const auto n = static_cast<std::ptrdiff_t>(std::min(32, dim - d));
        const std::vector<float> run(rows.begin() + at, rows.begin() + at + n);
        ASSERT_EQ(std::vector<float>(got.begin() + at, got.begin() + at + n), as_packed(run)) << dim << ", token " << t;
      }
    }
  }
}

// Components of keys that are thirty times the others cost these nothing.
TEST(KvKIVI2, LargeComponentsOfKeysLeaveTheOthersTheirDigits) {
  constexpr int kDim = 64;
  std::vector<float> rows = some_rows(kDim);
  const std::vector<float> plain = through(rows, kDim, true);
  for (int t = 0; t < kStripTokens; ++t) rows[static_cast<size_t>(t * kDim + 20)] += 30.0F;
  std::vector<float> got = through(rows, kDim, true);
  for (int t = 0; t < kStripTokens; ++t)
    got[static_cast<size_t>(t * kDim + 20)] = plain[static_cast<size_t>(t * kDim + 20)];
  EXPECT_EQ(got, plain);
}

TEST(KvKIVI2, EqualNumbersAndZerosComeBackAndBadOnesStayBad) {
  constexpr int kDim = 40;
  constexpr auto kAll = static_cast<size_t>(kStripTokens * kDim);
  for (const bool is_key : {true, false}) {
    EXPECT_EQ(through(std::vector<float>(kAll, 0.0F), kDim, is_key), std::vector<float>(kAll, 0.0F));
    EXPECT_EQ(through(std::vector<float>(kAll, -1.5F), kDim, is_key), std::vector<float>(kAll, -1.5F));
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> rows(kAll, 0.5F);
      rows[5 * kDim + 3] = bad;
      const std::vector<float> got = through(rows, kDim, is_key);
      for (size_t i = 0; i < kAll; ++i) {
        const size_t t = i / kDim, d = i % kDim;
        const bool shares = is_key ? d == 3 : t == 5 && d < 32;
        EXPECT_EQ(std::isfinite(got[i]), !shares) << bad << (is_key ? " key " : " value ") << i;
      }
    }
  }
}

TEST(KvKIVI2, FourComponentsOfAKeyShareAByteAndTwoOfTwoTokensOfValues) {
  constexpr int kDim = 64;
  EXPECT_EQ(kivi2().k_row_bytes(kDim), 32);
  EXPECT_EQ(kivi2().v_row_bytes(kDim), 24);
  std::vector<float> rows(static_cast<size_t>(kStripTokens * kDim), 0.0F);
  rows[5 * kDim + 6] = 3.0F;  // key: component 6 of token 5, of the step 1
  rows[9 * kDim + 6] = 1.0F;
  rows[5 * kDim + 50] = 6.0F;  // of the step 2
  std::vector<std::byte> strip(static_cast<size_t>(32 * kStripTokens));
  kivi2().pack_k(rows.data(), kDim, strip.data());
  const auto pair = [&strip](size_t at) { return load_as<uint32_t>(strip.data() + at); };
  EXPECT_EQ(pair(1 * 32 + 2 * 4), std::bit_cast<uint32_t>(1.0F)) << "step above, least below";
  EXPECT_EQ(pair(12 * 32 + 2 * 4), std::bit_cast<uint32_t>(2.0F));
  EXPECT_EQ(strip[1 * 32 + 16 + 5], std::byte{3 << 4});
  EXPECT_EQ(strip[1 * 32 + 16 + 9], std::byte{1 << 4});
  EXPECT_EQ(strip[12 * 32 + 16 + 5], std::byte{3 << 4});
  strip.assign(strip.size(), std::byte{0xff});
  kivi2().pack_v(rows.data(), kDim, strip.data());
  EXPECT_EQ(pair(2 * 48 + 16 + 4), std::bit_cast<uint32_t>(1.0F)) << "token 5, components below 32";
  EXPECT_EQ(strip[2 * 48 + 6], std::byte{3 << 4});
  EXPECT_EQ(pair(2 * 48 + 24 + 16 + 4), std::bit_cast<uint32_t>(2.0F)) << "token 5, components from 32 on";
  EXPECT_EQ(strip[2 * 48 + 24 + 2], std::byte{3 << 6}) << "component 50";
}

}  // namespace
}  // namespace quire
