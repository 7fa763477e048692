#include "model/altup.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

Tensor rows(std::vector<float>& values, int64_t n, int64_t d) {
  return Tensor::dense(values.data(), DType::f32, {n, d});
}

TEST(AltUp, PartsAreMixedByTheirRowsCoefficients) {
  std::vector<float> x = {1, 2, 10, 20, 3, 4, 30, 40}, out(8), coef = {0, 1, 0.5F, 0, 1, 0, 0, 0};
  predict_parts(rows(out, 2, 4), rows(x, 2, 4), rows(coef, 2, 4));
  EXPECT_EQ(out, (std::vector<float>{11, 22, 10.5F, 21, 6, 8, 30, 40}));
}

TEST(AltUp, WhatWasFoundCorrectsEveryPart) {
  std::vector<float> x = {1, 2, 10, 20}, found = {2, 4}, coef = {0, -0.5F}, out(4);
  correct_parts(rows(out, 1, 4), rows(x, 1, 4), rows(found, 1, 2), rows(coef, 1, 2));
  EXPECT_EQ(out, (std::vector<float>{2, 4, 10.5F, 21}));
}

TEST(AltUp, ColumnsAreScaled) {
  std::vector<float> x = {1, 2, 3, 4}, w = {2, -1}, out(4);
  scale_columns(rows(out, 2, 2), rows(x, 2, 2), Tensor::dense(w.data(), DType::f32, {2}));
  EXPECT_EQ(out, (std::vector<float>{2, -2, 6, -4}));
}

TEST(AltUp, RowsGetTheMagnitudeOfOthers) {
  std::vector<float> x = {3, 4, 0, 0}, like = {6, 8, 5, 5};
  match_magnitudes(rows(x, 2, 2), rows(like, 2, 2));
  EXPECT_EQ(x, (std::vector<float>{6, 8, 0, 0}));  // a row of zeros stays one
}

}  // namespace
}  // namespace quire
