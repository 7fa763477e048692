// What can be picked beside the sampler, and that its numbers say the same token.
#include "ops/pick.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "base/rng.h"
#include "ops/sample_row.h"

namespace quire {
namespace {

bool can(const std::function<void(SampleParams&)>& change) {
  SampleParams params;
  params.temperature = 0.8F;
  change(params);
  return can_pick(params);
}

TEST(Pick, TakesFiltersThatKeepWhereASortedRowBegins) {
  constexpr std::array kAnother = {kFilter<filters::TopK>, kFilter<filters::TypicalP>, kFilter<filters::Temperature>};
  EXPECT_TRUE(can([](SampleParams&) {}));
  EXPECT_TRUE(can([](SampleParams& p) { p.top_p = 0.9F, p.top_k = 40, p.min_p = 0.05F; }));
  EXPECT_TRUE(can([&](SampleParams& p) { p.top_k = 40, p.order = kAnother; }));
  EXPECT_TRUE(can([](SampleParams& p) { p.order = {}; }));
  EXPECT_TRUE(can([](SampleParams& p) { p.temperature = 0.0F, p.typical_p = 0.5F, p.min_keep = 4; }));
  EXPECT_FALSE(can([](SampleParams& p) { p.typical_p = 0.5F; }));
  EXPECT_FALSE(can([](SampleParams& p) { p.top_n_sigma = 1.0F; }));
  EXPECT_FALSE(can([](SampleParams& p) { p.xtc_probability = 0.5F; }));
  EXPECT_FALSE(can([](SampleParams& p) { p.dynatemp_range = 0.5F; }));
  EXPECT_FALSE(can([](SampleParams& p) { p.min_keep = 2; }));
  EXPECT_FALSE(can([](SampleParams& p) { p.forced = 3; }));
  constexpr std::array kMirostat = {kFilter<filters::Temperature>, kFilter<filters::Mirostat2>};
  EXPECT_FALSE(can([&](SampleParams& p) { p.order = kMirostat; }));
  const LogitEdits edits;
  EXPECT_FALSE(can([&](SampleParams& p) { p.edits = &edits; }));
  EXPECT_FALSE(can([](SampleParams& p) { p.top_p = 0.99995F; }));
}

TEST(Pick, NumbersSayTheSameToken) {
  constexpr int64_t kVocab = 700;
  Rng rng(1);
  SampleScratch scratch;
  for (int i = 0; i < 300; ++i) {
    std::vector<float> logits(kVocab);
    for (float& x : logits) x = rng.normal() * 2.0F;
    PickOrder order = kPickFilters, again = {};
    std::swap(order[static_cast<size_t>(rng.between(0, 3))], order[0]);
    SampleParams params;
    params.order = order;
    params.temperature = i % 7 == 0 ? 0.0F : 0.3F + static_cast<float>(rng.between(0, 9)) / 5.0F;
    params.top_p = i % 3 == 0 ? 1.0F : 0.9F;
    params.top_k = i % 4 == 0 ? 0 : 30;
    params.min_p = i % 5 == 0 ? 0.0F : 0.02F;
    params.draw = random_unit(7, static_cast<uint64_t>(i));
    int32_t numbers[kPickNumbers];
    put_pick(params, numbers);
    Sampled truth, got;
    sample_row(logits, params, plain_sample_kernels(), scratch, truth);
    sample_row(logits, picked_by(numbers, again), plain_sample_kernels(), scratch, got);
    EXPECT_EQ(got.token, truth.token) << i;
  }
}

// The premise of kMostPickTopP: up to there top-p ends where a sum over the whole row, without the bound that the
// sampler looks above, has it end. Weights as both have them: flat, falling slowly, and one far above many.
TEST(Pick, TopPEndsAboveTheSamplersBound) {
  constexpr int64_t kVocab = 200'000;
  SampleScratch scratch;
  const SampleKernels kernels = plain_sample_kernels();
  for (const float step : {0.0F, 1e-6F, 1e-4F, 1e-3F, -1.0F}) {
    std::vector<float> logits(kVocab);
    for (size_t i = 0; i < kVocab; ++i)
      logits[i] = step < 0.0F ? (i == 0 ? 12.0F : 0.0F) : 5.0F - step * static_cast<float>(i);
    double total = 0;  // in chunks, as the sampler adds them up
    for (size_t at = 0; at < kVocab; at += 1024) {
      const int64_t n = std::min<int64_t>(1024, kVocab - static_cast<int64_t>(at));
      total += static_cast<double>(kernels.exp_row(nullptr, logits.data() + at, n, logits[0], 1.0F));
    }
    std::vector<float> shares(kVocab);
    kernels.exp_row(shares.data(), logits.data(), kVocab, logits[0], 1.0F);
    const double wanted = std::ceil(static_cast<double>(kMostPickTopP) * total * 0x1p40);
    uint64_t reached = 0;
    size_t last = 0;
    while ((reached += static_cast<uint64_t>(shares[last] * 0x1p40F)) < static_cast<uint64_t>(wanted)) ++last;
    SampleParams params;
    params.temperature = 1.0F;
    params.top_p = kMostPickTopP;
    params.draw = 1.0 - 0x1p-53;  // the last one that is kept
    Sampled got;
    sample_row(logits, params, kernels, scratch, got);
    EXPECT_EQ(static_cast<size_t>(got.token), last) << step;
  }
}

}  // namespace
}  // namespace quire
