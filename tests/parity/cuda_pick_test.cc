// Picks under filters are the sampler's tokens: rows of all shapes, parameters in all orders, vocabularies from one to
// a quarter of a million, on devices and by HostAhead.
#include <array>
#include <limits>

#include "tests/parity/cuda_corpus.h"

namespace quire {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

template <class T, size_t kN>
T one_of(Rng& rng, const std::array<T, kN>& of) {
  return of.at(static_cast<size_t>(rng.between(0, kN - 1)));
}

// Spread out, with many equals and zeros of both signs, all equal, mostly forbidden, with huge distances, hardly apart.
constexpr int kShapes = 6;
void reshape(std::span<float> row, int shape) {
  for (size_t i = 0; i < row.size(); ++i) {
    float& x = row[i];
    if (shape == 1) x = std::round(x / 2);
    if (shape == 2) x = -3.5F;
    if (shape == 3 && i % 7 != row.size() % 7) x = kLeast;
    if (shape == 4) x *= 1e37F;
    if (shape == 5) x *= 1e-3F;
  }
  if (shape == 3) row.back() = 2.0F;
}

SampleParams random_params(Rng& rng, int64_t n_vocab, PickOrder& order) {
  const int k_all = static_cast<int>(n_vocab);
  SampleParams out;
  out.temperature = one_of(rng, std::array{1.0F, 0.7F, 0.2F, 1e-4F, 1.7F, 30.0F});
  out.top_k = one_of(rng, std::array{0, 1, 2, 40, 40, 700, 3000, k_all - 1, k_all, k_all + 5});
  out.top_p = one_of(rng, std::array{1.0F, 0.0F, 1e-9F, 0.3F, 0.9F, 0.95F, kMostPickTopP});
  out.min_p = one_of(rng, std::array{0.0F, 0.0F, 1e-6F, 0.05F, 0.5F, 1.0F});
  out.draw = one_of(rng, std::array{0.0, 1.0 - 0x1p-53, random_unit(rng.bits(), 0), random_unit(rng.bits(), 1),
                                    random_unit(rng.bits(), 2)});
  order = kPickFilters;
  if (rng.between(0, 1) == 0) return out;  // as they act where nobody asks for another order
  for (size_t i = order.size() - 1; i > 0; --i)
    std::swap(order.at(i), order.at(static_cast<size_t>(rng.between(0, static_cast<int64_t>(i)))));
  out.order = std::span(order).first(static_cast<size_t>(rng.between(2, 4)));
  return out;
}

// Of each row the token that is picked, and what the host draws.
struct Both {
  Tensor picked;
  std::vector<Sampled> drawn;
};
Both picked_and_drawn(Bench& bench, Matrix logits, const std::vector<SampleParams>& params) {
  const auto n = static_cast<int64_t>(params.size());
  Both out{Tensor::dense(bench.bytes(n * 4, 0), DType::i32, {n}), std::vector<Sampled>(params.size())};
  const Tensor y = bench.floats(std::move(logits));
  bench.ahead().pick(out.picked, y, pick_numbers(bench, params));
  bench.ops().sample(out.drawn, y, params);
  bench.ops().finish();
  return out;
}

template <int64_t kVocab, int64_t kRows>
std::vector<float> picked_ids(Bench& bench) {
  Rng rng(kVocab);
  Matrix logits(kRows, kVocab, 11, 3.0F);
  std::vector<SampleParams> params(kRows);
  std::vector<PickOrder> orders(kRows);
  for (size_t i = 0; i < kRows; ++i) {
    reshape(std::span(logits.values).subspan(i * kVocab, kVocab), static_cast<int>(i) % kShapes);
    params[i] = random_params(rng, kVocab, orders[i]);
    EXPECT_TRUE(can_pick(params[i]));
  }
  const auto [picked, drawn] = picked_and_drawn(bench, std::move(logits), params);
  std::vector<float> out;
  for (size_t i = 0; i < kRows; ++i) {
    const SampleParams& p = params[i];
    EXPECT_EQ(picked.ptr<int32_t>()[i], drawn[i].token)
        << "row " << i << " of " << kVocab << ": temperature " << p.temperature << ", top_k " << p.top_k << ", top_p "
        << p.top_p << ", min_p " << p.min_p << ", draw " << p.draw << ", filters " << p.order.size();
    EXPECT_TRUE(drawn[i].ok);
    out.push_back(static_cast<float>(drawn[i].token));
  }
  return out;
}

TEST(CudaPick, IsTheSamplersToken) {
  expect_same(picked_ids<1, 12>);
  expect_same(picked_ids<3, 24>);
  expect_same(picked_ids<300, 60>);
  expect_same(picked_ids<5003, 36>);
  expect_same(picked_ids<32'000, 6>);
}

TEST(CudaPick, OfAQuarterOfAMillionToo) { expect_same(picked_ids<256'000, 6>); }

// What no list in shared memory holds is read from the row again, digit by digit.
std::vector<float> picks_of_many(Bench& bench) {
  constexpr int64_t kRows = 6, kVocab = 9000;
  Matrix logits(kRows, kVocab, 5, 0.01F);
  std::ranges::fill(std::span(logits.values).first(2 * kVocab), 1.0F);
  std::vector<SampleParams> params(kRows);
  for (size_t i = 0; i < kRows; ++i) {
    params[i].temperature = 1.0F;
    params[i].draw = random_unit(3, i);
  }
  params[0].top_p = params[2].top_p = 0.8F;
  params[1].top_k = params[3].top_k = 4000;
  params[4].min_p = 0.5F;
  params[5].min_p = 0.5F, params[5].top_k = 8000, params[5].top_p = 0.9F;
  const auto [picked, drawn] = picked_and_drawn(bench, std::move(logits), params);
  for (size_t i = 0; i < kRows; ++i) EXPECT_EQ(picked.ptr<int32_t>()[i], drawn[i].token) << i;
  return {};
}

TEST(CudaPick, ManyAreLeftToo) { expect_same(picks_of_many); }

// Of a row with a NaN or an infinity it is not said which id, but that it is one.
TEST(CudaPick, WhatIsNoNumberHasAnIdToo) {
  const Body body = [](Bench& bench) {
    constexpr int64_t kRows = 8, kVocab = 300;
    Matrix logits(kRows, kVocab, 5);
    for (size_t i = 0; i < kRows; ++i) {
      const size_t at = i * kVocab + i * 41 % kVocab;
      logits.values[at] = i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
      if (i % 4 == 2) logits.values[at] = -logits.values[at];
    }
    std::fill_n(logits.values.begin(), kVocab, kLeast);
    std::vector<SampleParams> params(kRows);
    for (size_t i = 0; i < kRows; ++i) {
      params[i].temperature = 0.7F;
      params[i].top_p = i < 4 ? 0.9F : 1.0F;
      params[i].top_k = i % 4 < 2 ? 20 : 0;
      params[i].min_p = i == 7 ? 0.1F : 0.0F;
    }
    const Tensor picked = Tensor::dense(bench.bytes(kRows * 4, 0xff), DType::i32, {kRows});
    bench.ahead().pick(picked, bench.floats(std::move(logits)), pick_numbers(bench, params));
    bench.ops().finish();
    for (const int32_t id : picked.span<int32_t>()) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, kVocab);
    }
    return std::vector<float>{};
  };
  on_cpu(body);
  on_devices(body);
}

}  // namespace
}  // namespace quire
