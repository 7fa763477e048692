// Quantised folders on the CUDA backend's emulated device, in the formats that their weights are repacked into, columns
// in an order of their own included: the logits of the CPU's, bit for bit, in one pass and in chunks.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/support/golden_models.h"
#include "tests/support/golden_run.h"
#include "tests/support/quantised_folders.h"

namespace quire {
namespace {

class CudaFolder : public testing::TestWithParam<std::string> {};

TEST_P(CudaFolder, HasTheCpusLogits) {
  std::vector<Token> ids(23);
  std::iota(ids.begin(), ids.end(), 1);
  std::vector<float> truth;
  for (const size_t chunk : {23, 5}) {
    for (const char* backend : {"cpu", "cuda"}) {
      const Result<LoadedModel> loaded =
          load({.model = kQuantisedFolders + GetParam(), .backend = backend, .threads = 1, .kv_type = "f16"});
      ASSERT_TRUE(loaded) << loaded.error().message;
      const auto logits = logits_of(*loaded, ids, chunk);
      ASSERT_TRUE(logits) << logits.error().message;
      if (truth.empty()) truth = *logits;
      ASSERT_EQ(logits->size(), truth.size());
      ASSERT_EQ(std::memcmp(logits->data(), truth.data(), truth.size() * sizeof(float)), 0) << backend << ' ' << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, CudaFolder, testing::ValuesIn(quantised_folders()), golden_model_name);

}  // namespace
}  // namespace quire
