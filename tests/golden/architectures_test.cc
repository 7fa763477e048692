// Every architecture against the transformers package, on tiny random models (of tests/golden/models, made by
// tools/fixtures/make_model_fixtures.py and make_family_fixtures.py): from a Hugging Face folder and from GGUF, on
// every backend and instruction set, in one pass and in chunks. Exact keys and values; logprobs within 1e-3 and every
// greedy choice the same.
#include <gtest/gtest.h>

#include "app/wire.h"
#include "backend/cpu/cpu_ops.h"
#include "base/sanitized.h"
#include "io/hf_config.h"
#include "model/gguf_form.h"
#include "model/rope.h"
#include "tests/support/golden_models.h"
#include "tests/support/golden_run.h"
#include "tests/support/json_file.h"

namespace quire {
namespace {

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
  if (kSanitized) ways = {ways.front(), ways.back()};  // parity has every kernel
  for (const std::string& file : {std::string("/config.json"), std::string("/model.gguf")}) {
    if (!std::filesystem::exists(folder + file)) continue;  // one of both alone
    const std::string path = file == "/config.json" ? folder : folder + file;
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
        load({.model = golden_path(GetParam()), .threads = threads, .kv_type = "f32", .weights = weights});
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
  if (!golden_has_folder(GetParam())) return;  // it is GGUF alone
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
