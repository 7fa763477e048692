// Every architecture on the CUDA backend's emulated device: the logits of the CPU's, bit for bit, in one pass and in
// chunks. Matrices are converted to Q8_0; a model of which some cannot be is skipped and says so. One model with
// matrices and caches of every other kind too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/forward.h"
#include "app/wire.h"
#include "tests/support/golden_models.h"

namespace quire {
namespace {

struct Kind {
  std::string weights = "q8_0", kv_type = "f16";
};

Result<std::vector<float>> logits_on(
    const std::string& backend, const std::string& model, size_t chunk, const Kind& kind, size_t n_tokens = 23) {
  QR_TRY(LoadedModel loaded, load(ModelOptions{.model = golden_path(model),
                                               .backend = backend,
                                               .threads = 1,
                                               .kv_type = kind.kv_type,
                                               .weights = kind.weights}));
  std::vector<Token> ids(n_tokens);
  for (size_t i = 0; i < n_tokens; ++i) ids[i] = static_cast<Token>(i % 100 + 1);
  QR_TRY(Forward forward,
         Forward::make(*loaded.model, *loaded.ops, static_cast<int>(n_tokens), static_cast<int>(chunk)));
  std::vector<float> out;
  for (size_t at = 0; at < ids.size(); at += chunk) {
    QR_TRY(const Tensor part, forward.run(std::span(ids).subspan(at, std::min(chunk, ids.size() - at))));
    for (int64_t r = 0; r < part.dim(0); ++r)
      out.insert(out.end(), part.row<float>(r), part.row<float>(r) + part.dim(1));
  }
  return out;
}

bool have_same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

class CudaArchitectures : public testing::TestWithParam<std::string> {};

TEST_P(CudaArchitectures, LogitsAreTheCpus) {
  const Result<std::vector<float>> truth = logits_on("cpu", GetParam(), 23, {});
  ASSERT_TRUE(truth) << truth.error().message;
  for (const size_t chunk : {23, 5}) {
    const Result<std::vector<float>> got = logits_on("cuda", GetParam(), chunk, {});
    if (!got && got.error().message.find("so far") != std::string::npos) {
      GTEST_SKIP() << got.error().message;
    }
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_TRUE(have_same_bits(*truth, *got));
  }
}

TEST(CudaKinds, LogitsAreTheCpus) {
  for (const Kind& kind : {Kind{"bf16", "f32"}, Kind{"f8_32", "bf16"}, Kind{"f32", "q8"}, Kind{"q8_0", "f8"},
                           Kind{"q8_0", "q4"}, Kind{"q8_0", "k8v4"}, Kind{"q8_0", "kivi2"}}) {
    const Result<std::vector<float>> truth = logits_on("cpu", "llama", 23, kind),
                                     got = logits_on("cuda", "llama", 5, kind);
    ASSERT_TRUE(truth) << truth.error().message;
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(have_same_bits(*truth, *got)) << kind.weights << ' ' << kind.kv_type;
  }
}

// Bits of its own: the same in one pass and in chunks, near the CPU's.
TEST(CudaTensorKinds, LogitsAreNearTheCpusAndTheSameInChunks) {
  for (const std::string model : {"llama", "gemma2"}) {
    const Kind kind{"bf16", "bf16"};
    const std::vector<float> truth = *logits_on("cpu", model, 23, kind);
    const std::vector<float> whole = *logits_on("cuda-tensor", model, 23, kind);
    EXPECT_TRUE(have_same_bits(whole, *logits_on("cuda-tensor", model, 5, kind))) << model;
    EXPECT_FALSE(have_same_bits(whole, truth)) << model;
    const float largest = std::abs(*std::ranges::max_element(truth, {}, [](float v) { return std::abs(v); }));
    ASSERT_EQ(whole.size(), truth.size());
    for (size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(whole[i], truth[i], 0.01F * largest) << model << i;
  }
}

// In one pass by wgmma, in chunks by mma.
TEST(CudaTensorKinds, LogitsOfManyRowsAreTheSameInChunks) {
  const Kind kind{"bf16", "bf16"};
  const std::vector<float> whole = *logits_on("cuda-tensor", "llama", 150, kind, 150);
  for (const size_t chunk : {17, 100}) {
    EXPECT_TRUE(have_same_bits(whole, *logits_on("cuda-tensor", "llama", chunk, kind, 150))) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, CudaArchitectures, testing::ValuesIn(golden_models()), golden_model_name);

}  // namespace
}  // namespace quire
