#include "quant/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"

namespace quire {
namespace {

using testing::HasSubstr;

const WeightFormat& format(std::string_view name) { return *find_weight_format(name); }

HostWeight matrix(std::vector<float>& values, int64_t n_cols) {
  return HostWeight{
      "m", &format("f32"), {static_cast<int64_t>(values.size()) / n_cols, n_cols}, std::as_bytes(std::span(values))};
}

std::vector<float> normal_values(int64_t n) {
  Rng rng(3);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = rng.normal();
  return out;
}

TEST(Convert, EveryThreadCountGivesTheSameBytesAndError) {
  std::vector<float> values = normal_values(50 * 256);
  const HostWeight from = matrix(values, 256);
  for (const WeightFormat* to : weight_formats()) {
    std::vector<std::byte> one(static_cast<size_t>(50 * to->row_bytes(256)));
    std::vector<std::byte> four(one.size());
    const auto a = convert_weight(from, *to, {.n_threads = 1}, one.data());
    const auto b = convert_weight(from, *to, {.n_threads = 4}, four.data());
    ASSERT_TRUE(a && b) << to->name;
    EXPECT_EQ(one, four) << to->name;
    EXPECT_EQ(a->relative, b->relative) << to->name;
    EXPECT_EQ(a->largest, b->largest) << to->name;
    // What it reports is what the bytes decode to.
    HostWeight back = from;
    back.format = to;
    back.data = one;
    std::vector<float> decoded(values.size());
    ASSERT_TRUE(
        convert_weight(back, format("f32"), {.n_threads = 1}, std::as_writable_bytes(std::span(decoded)).data()));
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(decoded[i]) - static_cast<double>(values[i])));
    }
    EXPECT_EQ(a->largest, largest) << to->name;
  }
}

TEST(Convert, NumbersThatAreNotFiniteAreRefused) {
  std::vector<float> values = normal_values(3 * 32);
  values[2 * 32 + 5] = NAN;
  std::vector<std::byte> out(3 * 64 * 4);
  for (const WeightFormat* to : weight_formats()) {
    if (32 % to->block != 0) continue;
    const auto got = convert_weight(matrix(values, 32), *to, {.n_threads = 1}, out.data());
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::invalid);
    EXPECT_THAT(got.error().message, HasSubstr("tensor \"m\": row 2, column 5")) << to->name;
  }
  values[2 * 32 + 5] = 1e30F;
  EXPECT_FALSE(convert_weight(matrix(values, 32), format("f16"), {.n_threads = 1}, out.data()));
  EXPECT_FALSE(convert_weight(matrix(values, 32), format("q4_0"), {.n_threads = 1}, out.data()));
  EXPECT_TRUE(convert_weight(matrix(values, 32), format("bf16"), {.n_threads = 1}, out.data()));
}

TEST(Convert, RowsThatAreNoWholeSuperBlocksGetTheNextLargerFormat) {
  std::vector<float> values(static_cast<size_t>(7 * 256 * 32));
  const auto fitting = [&](int64_t n_cols, std::string_view wanted) {
    return fitting_format(matrix(values, n_cols), format(wanted))->name;
  };
  EXPECT_EQ(fitting(256, "q4_k"), "q4_k");
  EXPECT_EQ(fitting(32, "q4_0"), "q4_0");
  EXPECT_EQ(fitting(32, "q2_k"), "iq4_nl");
  EXPECT_EQ(fitting(32, "q3_k"), "iq4_nl");
  EXPECT_EQ(fitting(32, "iq4_xs"), "iq4_nl");
  EXPECT_EQ(fitting(32, "q4_k"), "q5_0");
  EXPECT_EQ(fitting(32, "q5_k"), "q5_1");
  EXPECT_EQ(fitting(32, "q6_k"), "q8_0");
  EXPECT_EQ(fitting(28, "q6_k"), "f16");
  EXPECT_EQ(fitting(28, "q4_0"), "f16");
  EXPECT_EQ(fitting(28, "bf16"), "bf16");
  HostWeight vector{"v", &format("f32"), {256}, {}};
  EXPECT_EQ(fitting_format(vector, format("q4_k"))->name, "f32");
  HostWeight router{"blk.0.ffn_gate_inp.weight", &format("f32"), {8, 256}, {}};
  EXPECT_EQ(fitting_format(router, format("q4_k"))->name, "f32");
  HostWeight positions{"position_embd.weight", &format("f32"), {8, 256}, {}};
  EXPECT_EQ(fitting_format(positions, format("q4_k"))->name, "f32");
  HostWeight shares = matrix(values, 256);
  shares.name = "blk.0.time_mix_lerp_fused.weight";
  EXPECT_EQ(fitting_format(shares, format("q4_k"))->name, "f32");
  shares.name = "blk.0.time_mix_key.weight";
  EXPECT_EQ(fitting_format(shares, format("q4_k"))->name, "q4_k");
  // What takes the place of a format may not be larger than what is there.
  HostWeight small{"m", &format("q4_0"), {2, 32}, {}};
  EXPECT_EQ(fitting_format(small, format("q4_k"))->name, "q4_0");
  EXPECT_EQ(fitting_format(small, format("q2_k"))->name, "q4_0");
  EXPECT_EQ(fitting_format(small, format("q8_0"))->name, "q8_0");
  HostWeight odd{"m", &format("bf16"), {2, 28}, {}};
  EXPECT_EQ(fitting_format(odd, format("q8_0"))->name, "bf16");
}

double weighted_error(const std::vector<float>& was, const std::vector<float>& is, const std::vector<float>& weights) {
  double sum = 0;
  for (size_t i = 0; i < was.size(); ++i) {
    const double lost = static_cast<double>(is[i]) - static_cast<double>(was[i]);
    sum += static_cast<double>(weights[i % weights.size()]) * lost * lost;
  }
  return sum;
}

// `values` in `to` and back.
std::vector<float> through(std::vector<float> values, const WeightFormat& to, const Conversion& how) {
  std::vector<std::byte> bytes(static_cast<size_t>(static_cast<int64_t>(values.size()) / 256 * to.row_bytes(256)));
  EXPECT_TRUE(convert_weight(matrix(values, 256), to, how, bytes.data())) << to.name;
  std::vector<float> out(values.size());
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(to.block)) {
    to.decode(bytes.data() + i / static_cast<size_t>(to.block) * static_cast<size_t>(to.bytes), out.data() + i);
  }
  return out;
}

TEST(Convert, ImportantColumnsComeNearer) {
  const std::vector<float> values = normal_values(16 * 256);
  std::vector<float> importance = normal_values(256);
  for (float& v : importance) v *= v * v * v;
  importance[7] = 0;  // never used
  for (const WeightFormat* to : weight_formats()) {
    const double plain = weighted_error(values, through(values, *to, {}), importance);
    const double weighted = weighted_error(values, through(values, *to, {.importance = importance}), importance);
    const bool ternary = to->name.starts_with("tq");
    if (to->block == 1 || to->name == "q8_0" || to->name == "mxfp4" || to->name == "nvfp4" || ternary ||
        !to->is_in_gguf()) {
      EXPECT_EQ(weighted, plain) << to->name << " searches for nothing";
    } else {
      EXPECT_LT(weighted, (to->name.starts_with("iq1") ? 0.85 : 0.75) * plain) << to->name;
    }
  }
}

// The error's part along the numbers, as a share of them: least squares leaves the error's own share, negative.
TEST(Convert, WithImportancesALoneScaleShrinksNothing) {
  const std::vector<float> values = normal_values(16 * 256);
  std::vector<float> importance = normal_values(256);
  for (float& v : importance) v = 0.1F + v * v;
  for (const char* name : {"q4_0", "q5_0", "iq4_nl"}) {
    const std::vector<float> back = through(values, format(name), {.importance = importance});
    double along = 0;
    double power = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto was = static_cast<double>(values[i]);
      const auto weight = static_cast<double>(importance[i % importance.size()]);
      along += weight * (static_cast<double>(back[i]) - was) * was;
      power += weight * was * was;
    }
    const double share = weighted_error(values, back, importance) / power;
    EXPECT_LT(std::fabs(along / power), 0.2 * share) << name << ": " << along / power << " of " << share;
  }
}

TEST(Convert, ImportancesOfNothingAreNone) {
  const std::vector<float> values = normal_values(4 * 256);
  const std::vector<float> zeros(256, 0.0F);
  const std::vector<float> same(256, 2.5F);
  const WeightFormat& to = format("q4_k");
  const std::vector<float> plain = through(values, to, {});
  EXPECT_EQ(through(values, to, {.importance = zeros}), plain);
  EXPECT_EQ(through(values, to, {.importance = same}), plain);
}

// What docs/io.md says of the quick search.
TEST(Convert, TheQuickSearchLosesLittle) {
  const std::vector<float> values = normal_values(64 * 256);
  const std::vector<float> ones(256, 1.0F);
  for (const WeightFormat* to : weight_formats()) {
    const double thorough = weighted_error(values, through(values, *to, {}), ones);
    const double quick = weighted_error(values, through(values, *to, {.quick = true}), ones);
    EXPECT_LE(std::sqrt(quick), 1.08 * std::sqrt(thorough)) << to->name;
  }
}

}  // namespace
}  // namespace quire
