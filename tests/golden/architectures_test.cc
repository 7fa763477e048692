// Every architecture against the transformers package, on tiny random models (tests/golden/models, made by
// tools/fixtures/make_model_fixtures.py and make_family_fixtures.py): from a Hugging Face folder and from GGUF, on
// every backend and instruction set, in one pass and in chunks. Exact keys and values; logprobs within 1e-3 and every
// greedy choice the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/forward.h"
#include "app/wire.h"
#include "backend/cpu/cpu_ops.h"
#include "io/hf_config.h"
#include "model/gguf_form.h"
#include "model/rope.h"
#include "tests/support/golden_models.h"
#include "tests/support/json_file.h"

namespace quire {
namespace {

constexpr double kTolerance = 1e-3;  // of logprobs
constexpr double kRounded = 0.1;     // of half of them, where products round activations to BF16

std::vector<Token> tokens_of(const Json& list) {
  std::vector<Token> out;
  for (const Json& item : *list.as_array()) out.push_back(static_cast<Token>(*item.as_int()));
  return out;
}

// Natural logarithms of the softmax of one row.
std::vector<double> logprobs_of(std::span<const float> logits) {
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - max);
  std::vector<double> out;
  for (const float v : logits) out.push_back(static_cast<double>(v) - max - std::log(sum));
  return out;
}

Result<std::vector<float>> logits_of(const LoadedModel& loaded, std::span<const Token> ids, size_t chunk) {
  QR_TRY(Forward forward, Forward::make(*loaded.model, *loaded.ops, static_cast<int>(ids.size()),
                                        static_cast<int>(std::min(chunk, ids.size()))));
  std::vector<float> out;
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const Tensor part = forward.run(ids.subspan(at, std::min(chunk, ids.size() - at)));
    out.insert(out.end(), part.ptr<float>(), part.ptr<float>() + part.n_elements());
  }
  return out;
}

// Of rounded activations, which may choose another expert or move a logprob of −40 far: half of the positions are near.
void check_median(std::span<const float> logits, std::span<const Token> ids, const Json::Array& chosen, double most) {
  const size_t n_vocab = logits.size() / (ids.size() - 1);
  std::vector<double> off;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::vector<double> row = logprobs_of(logits.subspan(i * n_vocab, n_vocab));
    off.push_back(std::fabs(row[static_cast<size_t>(ids[i + 1])] - chosen[i].number()));
  }
  std::nth_element(off.begin(), off.begin() + std::ssize(off) / 2, off.end());
  ASSERT_LE(off[off.size() / 2], most);
}

void check_run(const LoadedModel& loaded, const Json& run, size_t chunk, double tolerance) {
  std::vector<Token> ids = tokens_of(*run.find("prompt_ids"));
  const size_t n_prompt = ids.size();
  const std::vector<Token> greedy = tokens_of(*run.find("greedy_ids"));
  ids.insert(ids.end(), greedy.begin(), greedy.end());
  const auto n_vocab = static_cast<size_t>(loaded.model->info().n_vocab);
  const auto logits = logits_of(loaded, std::span(ids).first(ids.size() - 1), chunk);
  ASSERT_TRUE(logits) << logits.error().message;
  const Json::Array& chosen = *run.find("logprobs")->as_array();
  const Json::Array& last = *run.find("last_logprobs")->as_array();
  ASSERT_EQ(chosen.size() + 1, ids.size());
  if (tolerance > kTolerance) return check_median(*logits, ids, chosen, tolerance);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::vector<double> row = logprobs_of(std::span(*logits).subspan(i * n_vocab, n_vocab));
    ASSERT_NEAR(row[static_cast<size_t>(ids[i + 1])], chosen[i].number(), tolerance) << "position " << i;
    if (i + 1 >= n_prompt) {
      ASSERT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), ids[i + 1]) << "position " << i;
    }
    for (size_t v = 0; i + 2 == ids.size() && v < n_vocab; ++v) {
      ASSERT_NEAR(row[v], last[v].number(), tolerance) << "token " << v;
    }
  }
}

class Architecture : public testing::TestWithParam<std::string> {};

TEST_P(Architecture, MatchesTheReference) {
  const std::string folder = kGoldenModels + GetParam();
  const Json expected = read_json(folder + "/expected.json");
  // The files are in BF16, whose products round activations: as f32 they have none to round.
  std::vector<ModelOptions> ways = {{.backend = "ref", .threads = 1, .weights = "f32"},
                                    {.backend = "ref", .threads = 1}};
  for (const std::string& isa : cpu_isas()) {
    ways.push_back({.backend = "cpu", .isa = isa, .threads = 2, .weights = "f32"});
    ways.push_back({.backend = "cpu", .isa = isa, .threads = 2});
  }
#ifdef QR_DEBUG
  ways = {ways.front(), ways.back()};  // sanitizers are slower; parity has every kernel
#endif
  for (const std::string& path : {folder, folder + "/model.gguf"}) {
    for (ModelOptions options : ways) {
      for (const Json& run : *expected.find("runs")->as_array()) {
        SCOPED_TRACE(path + " " + options.backend + " " + options.isa + " " + options.weights);
        options.model = path;
        options.kv_type = "f32";
        options.ctx = static_cast<int>(*run.find("ctx")->as_int());
        const Result<LoadedModel> loaded = load(options);
        ASSERT_TRUE(loaded) << loaded.error().message;
        check_run(*loaded, run, options.isa == "avx2" ? 7 : 256, options.weights.empty() ? kRounded : kTolerance);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Conversion while loading gives the bits that the same format in a file gives, however many threads convert.
TEST_P(Architecture, ConvertsWhileLoading) {
  const std::string folder = kGoldenModels + GetParam();
  const Json expected = read_json(folder + "/expected.json");
  const std::vector<Token> ids = tokens_of(*(*expected.find("runs")->as_array())[0].find("prompt_ids"));
  const auto logits = [&](const std::string& weights, int threads) {
    const Result<LoadedModel> loaded =
        load({.model = folder, .threads = threads, .kv_type = "f32", .weights = weights});
    EXPECT_TRUE(loaded) << loaded.error().message;
    return *logits_of(*loaded, ids, 256);
  };
  const std::vector<float> exact = logits("f32", 1);
  EXPECT_EQ(logits("f32", 3), exact);
  const std::vector<float> one = logits("q8_0", 1);
  EXPECT_EQ(logits("q8_0", 3), one);
  EXPECT_NE(one, exact);
}

// What `quire convert` writes of a folder is the folder's model, in GGUF's order of rows and with experts in one
// tensor.
TEST_P(Architecture, AsGgufItIsTheSame) {
  const std::string path = kGoldenModels + GetParam();
  const Json expected = read_json(path + "/expected.json");
  const auto folder = open_model(path);
  ASSERT_TRUE(folder) << folder.error().message;
  const auto file = gguf_form(*folder);
  ASSERT_TRUE(file) << file.error().message;
  LoadedModel loaded;
  loaded.ops = *make_cpu_ops(CpuOptions{.n_threads = 2, .isa = "", .pin = false});
  LoadOptions options;
  options.k_codec = options.v_codec = find_kv_codec("f32");
  options.weights = find_weight_format("f32");
  for (const Json& run : *expected.find("runs")->as_array()) {
    options.n_ctx = static_cast<int>(*run.find("ctx")->as_int());
    auto model = load_model(*file, *loaded.ops, options);
    ASSERT_TRUE(model) << model.error().message;
    loaded.model = std::move(*model);
    check_run(loaded, run, 256, kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Architecture, testing::ValuesIn(golden_models()), golden_model_name);

// A folder's facts with this rope, as newer configurations have it ("rope_parameters") or as older ones do.
ModelFile folder_with(const Json& c, bool older) {
  const Json& rope = *c.find("rope_parameters");
  Json config;
  config.set("model_type", "llama");
  config.set("hidden_size", 128);
  config.set("num_attention_heads", 4);
  config.set("max_position_embeddings", *c.find("max_position_embeddings"));
  if (older) {
    Json scaling(Json::Object{});
    for (const auto& [key, value] : *rope.as_object()) {
      if (key != "rope_theta") scaling.set(key == "rope_type" ? "type" : key, value);
    }
    config.set("rope_theta", *rope.find("rope_theta"));
    config.set("rope_scaling", std::move(scaling));
  } else {
    config.set("rope_parameters", rope);
  }
  ModelFile folder;
  folder.path = "folder";
  folder.is_hugging_face = true;
  folder.meta = *read_hf_config(config);
  return folder;
}

void check_rope(const Json& c, bool older) {
  const Result<ModelFile> file = neutral_form(folder_with(c, older));
  ASSERT_TRUE(file) << file.error().message;
  const auto n_ctx = static_cast<int>(*c.find("n_ctx")->as_int());
  const auto trained = static_cast<int>(*c.find("max_position_embeddings")->as_int());
  EXPECT_EQ(*file->meta.get_double("llama.rope.freq_base", 0, 1e9), 1e5);
  const Result<Rope> rope = read_rope(*file, RopeQuery{"llama.", 32, 1e5, n_ctx, trained});
  ASSERT_TRUE(rope) << rope.error().message;
  EXPECT_NEAR(rope->magnitude, c.find("magnitude")->number(), 1e-6);
  const Json::Array& freq = *c.find("freq")->as_array();
  ASSERT_EQ(rope->freq.size(), freq.size());
  for (size_t i = 0; i < freq.size(); ++i) {
    const double truth = freq[i].number();
    EXPECT_NEAR(std::bit_cast<double>(rope->freq[i]), truth, 2e-6 * truth) << i;
  }
}

TEST(RopeScaling, EveryKindMatchesTheReference) {
  const Json golden = read_json(std::string(kGoldenModels) + "rope.json");
  for (const Json& c : *golden.find("cases")->as_array()) {
    for (const bool older : {false, true}) {
      SCOPED_TRACE(c.dump().substr(0, 60) + (older ? " older" : " newer"));
      check_rope(c, older);
    }
  }
}

}  // namespace
}  // namespace quire
