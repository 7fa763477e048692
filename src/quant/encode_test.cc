// How near encoded weights are to what they were made from.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "quant/encoding.h"
#include "quant/weight_format.h"

namespace quire {
namespace {

constexpr int kNumbers = 256 * 64;

struct Input {
  const char* name;
  std::function<float(Rng&)> draw;
};

const Input kInputs[] = {
    {"normal", [](Rng& rng) { return rng.normal(); }},
    {"small", [](Rng& rng) { return 0.02F * rng.normal(); }},
    {"heavy tails", [](Rng& rng) { return std::pow(rng.normal(), 3.0F); }},
    {"uniform", [](Rng& rng) { return static_cast<float>(rng.unit()) - 0.5F; }},
    {"all negative", [](Rng& rng) { return -2.0F - static_cast<float>(rng.unit()); }},
    {"all positive", [](Rng& rng) { return 2.0F + static_cast<float>(rng.unit()); }},
    {"sparse", [](Rng& rng) { return rng.unit() < 0.9 ? 0.0F : rng.normal(); }},
};

std::vector<float> numbers(const Input& input) {
  Rng rng(21);
  std::vector<float> out(kNumbers);
  for (float& v : out) v = input.draw(rng);
  return out;
}

double encoded_error(const WeightFormat& format, const std::vector<float>& x) {
  std::vector<std::byte> block(static_cast<size_t>(format.bytes));
  std::vector<float> back(static_cast<size_t>(format.block));
  double sum = 0;
  for (size_t i = 0; i < x.size(); i += back.size()) {
    format.encode(x.data() + i, block.data());
    format.decode(block.data(), back.data());
    for (size_t k = 0; k < back.size(); ++k) sum += std::pow(static_cast<double>(back[k] - x[i + k]), 2);
  }
  return sum;
}

// The plain way, at scales of full precision: the extreme number of a group on the lowest level, or the smallest and
// the largest on the first and the last.
struct Plain {
  int group, n_levels;
  enum Kind { scale, line, line_below_zero } kind;  // line_below_zero: its first level is at most 0
};

double plain_error(const Plain& plain, const std::vector<float>& x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); i += static_cast<size_t>(plain.group)) {
    float lo = x[i];
    float hi = x[i];
    for (size_t k = i; k < i + static_cast<size_t>(plain.group); ++k) {
      lo = std::min(lo, x[k]);
      hi = std::max(hi, x[k]);
    }
    const bool line = plain.kind != Plain::scale;
    if (plain.kind == Plain::line_below_zero) lo = std::min(lo, 0.0F);
    const int half = plain.n_levels / 2;
    const float zero = static_cast<float>(half);
    const float extreme = -lo > hi ? lo : hi;
    const float scale = line ? (hi - lo) / static_cast<float>(plain.n_levels - 1) : extreme / -zero;
    const float min = line ? lo : 0;
    for (size_t k = i; k < i + static_cast<size_t>(plain.group); ++k) {
      float q = scale != 0 ? std::round((x[k] - min) / scale) : 0;
      q = line ? q : std::min(std::max(q, -zero), zero - 1);
      sum += std::pow(static_cast<double>(scale * q + min - x[k]), 2);
    }
  }
  return sum;
}

const std::map<std::string, Plain> kPlain = {
    {"q2_k", {16, 4, Plain::line_below_zero}},
    {"q3_k", {16, 8, Plain::scale}},
    {"q4_0", {32, 16, Plain::scale}},
    {"q4_1", {32, 16, Plain::line}},
    {"q4_k", {32, 16, Plain::line_below_zero}},
    {"q5_0", {32, 32, Plain::scale}},
    {"q5_1", {32, 32, Plain::line}},
    {"q5_k", {32, 32, Plain::line_below_zero}},
    {"q6_k", {16, 64, Plain::scale}},
};

TEST(Encode, IsNoWorseThanThePlainWayAtExactScales) {
  for (const auto& [name, plain] : kPlain) {
    const WeightFormat* format = find_weight_format(name);
    ASSERT_NE(format, nullptr) << name;
    for (const Input& input : kInputs) {
      const std::vector<float> x = numbers(input);
      EXPECT_LE(encoded_error(*format, x), plain_error(plain, x)) << name << ", " << input.name;
    }
  }
}

// What searches on wider registers writes is what the narrow ones write, to the bit.
TEST(Encoders, EverySetWritesTheSameBytes) {
  Rng rng(5);
  std::vector<float> importance(256);
  for (float& v : importance) v = 0.1F + 4 * static_cast<float>(rng.unit());
  for (const EncoderSet& set : encoder_sets()) {
    if (!set.runs_here()) continue;
    ASSERT_EQ(set.encoders.size(), weight_formats().size());
    for (size_t f = 0; f < set.encoders.size(); ++f) {
      const WeightFormat& format = *weight_formats()[f];
      const Encoder base = encoder_sets().front().encoders[f];
      ASSERT_NE(base, nullptr);
      if (set.encoders[f] == nullptr) continue;
      std::vector<std::byte> block(static_cast<size_t>(format.bytes));
      std::vector<std::byte> wanted(block.size());
      for (const Input& input : kInputs) {
        const std::vector<float> x = numbers(input);
        for (const Encoding how :
             {Encoding{}, {nullptr, true}, {importance.data(), false}, {importance.data(), true}}) {
          for (size_t i = 0; i < x.size() / 4; i += static_cast<size_t>(format.block)) {
            set.encoders[f](x.data() + i, block.data(), how);
            base(x.data() + i, wanted.data(), how);
            ASSERT_EQ(block, wanted) << set.isa << " " << format.name << " " << input.name << " from " << i;
          }
        }
      }
    }
  }
}

TEST(Encoders, NumbersThatAreNotFiniteGiveTheSameBlocks) {
  for (const float bad : {INFINITY, -INFINITY, NAN, 3e38F, 1e-44F}) {
    for (const EncoderSet& set : encoder_sets()) {
      if (!set.runs_here()) continue;
      for (size_t f = 0; f < set.encoders.size(); ++f) {
        const WeightFormat& format = *weight_formats()[f];
        if (set.encoders[f] == nullptr) continue;
        std::vector<float> x = numbers(kInputs[0]);
        x[3] = bad;
        std::vector<std::byte> block(static_cast<size_t>(format.bytes));
        std::vector<std::byte> wanted(block.size());
        set.encoders[f](x.data(), block.data(), {});
        encoder_sets().front().encoders[f](x.data(), wanted.data(), {});
        EXPECT_EQ(block, wanted) << set.isa << " " << format.name << " " << bad;
      }
    }
  }
}

}  // namespace
}  // namespace quire
