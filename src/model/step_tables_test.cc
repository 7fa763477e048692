// What rows are told by their positions.
#include "model/step_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace quire {
namespace {

using testing::ElementsAre;

Tensor numbers(std::vector<int32_t>& values) {
  return Tensor::dense(values.data(), DType::i32, {static_cast<int64_t>(values.size())});
}

TEST(StepTables, QueriesGrowByLengths) {
  std::vector<int32_t> pos = {0, 7, 8, 23, 1000};
  std::vector<float> out(5 * 4, -1.0F);
  const Tensor table = Tensor::dense(out.data(), DType::f32, {5, 2, 2});
  fill_query_factors(table, {.by = 0.5, .length = 8, .ahead = 1}, numbers(pos), 31);
  const auto grown = [](double n) { return static_cast<float>(1.0 + 0.5 * std::log(1.0 + n)); };
  EXPECT_THAT(out, ElementsAre(1, 0, 1, 0, grown(1), 0, grown(1), 0, grown(1), 0, grown(1), 0, grown(3), 0, grown(3), 0,
                               grown(4), 0, grown(4), 0))
      << "the last row stands at 31";
}

TEST(StepTables, RowsSeeTheirChunk) {
  std::vector<int32_t> pos = {0, 15, 16, 40}, first = {0, 3, 0, 35}, out(4, -1);
  fill_chunk_starts(numbers(out), 16, numbers(pos), numbers(first));
  EXPECT_THAT(out, ElementsAre(0, 3, 16, 35));
}

TEST(StepTables, LargestOfARow) {
  std::vector<float> scores = {-3, -1, -2, 5, 4, 3}, out(2);
  fill_largest(Tensor::dense(out.data(), DType::f32, {2, 1}), Tensor::dense(scores.data(), DType::f32, {2, 3}));
  EXPECT_THAT(out, ElementsAre(-1, 5));
}

TEST(StepTables, WhatLiesBeyondIsCut) {
  std::vector<float> rows = {-3, -1, 9, 5, 2, 0.5F};  // of each row the first two
  Tensor x = Tensor::dense(rows.data(), DType::f32, {2, 3}).columns(0, 2);
  cut_rows(x, 2);
  EXPECT_THAT(rows, ElementsAre(-2, -1, 9, 2, 2, 0.5F));
  rows[0] = NAN;
  cut_rows(x, 2);
  EXPECT_TRUE(std::isnan(rows[0]));
}

TEST(StepTables, TwoExpertsTakeTheirSharesOfWhatTheyCouldBeMistakenFor) {
  // The best alone; the next two within 2 · 0.05 of one another, the last far behind.
  std::vector<float> scores = {1.9F, 4.0F, 2.0F, -1.0F};
  mix_sparsely(Tensor::dense(scores.data(), DType::f32, {1, 4}), 0.05F);
  const auto share = [&](size_t e) { return 1 / (1 + std::exp(-static_cast<double>(scores[e]))); };
  EXPECT_EQ(share(1), 1.0);
  EXPECT_NEAR(share(2), 1 / (1 + std::exp(-0.1)), 1e-6);
  EXPECT_EQ(share(0), 0.0);
  EXPECT_EQ(share(3), 0.0);
}

TEST(StepTables, SharesHaveTheirExpertsGain) {
  std::vector<float> scores = {1, 3, 2, 0}, gains = {1, 0.5F, 2, 1};
  gain_shares(Tensor::dense(scores.data(), DType::f32, {1, 4}), 2, Tensor::dense(gains.data(), DType::f32, {4}), 2.0F);
  const auto share = [&](size_t e) { return 2 / (1 + std::exp(-static_cast<double>(scores[e]))); };
  EXPECT_NEAR(share(1), 0.5 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(share(2), 2 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(share(0), 0.0);
  EXPECT_EQ(share(3), 0.0);
}

TEST(StepTables, GatesBelowTheCutoffAreNone) {
  std::vector<float> gates = {0, 2, 4, 6};  // mean 3, deviation √5
  keep_above(Tensor::dense(gates.data(), DType::f32, {1, 4}), 0.5);
  const auto least = static_cast<float>(3 + 0.5 * std::sqrt(5.0));
  EXPECT_EQ(gates, (std::vector<float>{0, 0, 0, 6 - least}));
}

}  // namespace
}  // namespace quire
