// Quantised weights cost what quantising them loses and, beside that, only the 8-bit activations: the logits of every
// integer format against those of the same weights decoded to f32.
#include <gtest/gtest.h>

#include <cmath>

#include "app/forward.h"
#include "backend/cpu/cpu_ops.h"
#include "base/sanitized.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

std::vector<float> logits_of(const TinyModel& tiny) {
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = "", .pin = false});
  const auto model = tiny.load(**ops, "f32");
  EXPECT_TRUE(model) << model.error().message;
  constexpr int kTokens = kSanitized ? 16 : 64;
  std::vector<Token> tokens(kTokens);
  for (int i = 0; i < kTokens; ++i) tokens[static_cast<size_t>(i)] = i * 37 % 105;
  auto forward = Forward::make(**model, **ops, kTokens, kTokens);
  EXPECT_TRUE(forward);
  const Tensor out = *forward->run(tokens);
  return {out.ptr<float>(), out.ptr<float>() + out.n_elements()};
}

// Bounds in units of the logits' root mean square. Groups of 32 normal numbers quantised to 127 steps of their largest
// are off by 0.5 % of their root mean square; a layer adds four such roundings in a row.
TEST(Quantised, LogitsAreThoseOfTheDecodedWeightsWithin8BitActivations) {
  constexpr double kRms = 0.03;
  constexpr double kLargest = 0.15;
  for (const WeightFormat* format : weight_formats()) {
    if (!format->integer) continue;
    const int block = format->block;
    const TinyShape shape = block <= 32 ? TinyShape{} : TinyShape{.n_embd = block, .n_ff = block};
    const std::vector<float> got = logits_of(TinyModel(shape, format->name, 11));
    TinyModel decoded(shape, format->name, 11);
    decoded.decode_weights();
    const std::vector<float> wanted = logits_of(decoded);
    ASSERT_EQ(got.size(), wanted.size());
    double power = 0;
    double squared = 0;
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double error = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
      power += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
      squared += error * error;
      largest = std::max(largest, std::fabs(error));
    }
    const double rms = std::sqrt(power / static_cast<double>(got.size()));
    EXPECT_LE(std::sqrt(squared / power), kRms) << format->name;
    EXPECT_LE(largest / rms, kLargest) << format->name;
  }
}

}  // namespace
}  // namespace quire
