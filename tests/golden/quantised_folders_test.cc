// Folders of GPTQ, AWQ, compressed-tensors, FP8 and BitNet against the transformers package with the weights
// dequantised (tests/golden/quantised, made by tools/fixtures/make_quantised_fixtures.py): as f32 logprobs within 1e-3
// and every greedy choice the same, on every backend and instruction set; in the formats that the weights are repacked
// into, near, and the same bits everywhere.
#include "tests/support/quantised_folders.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backend/cpu/cpu_ops.h"
#include "model/gguf_form.h"
#include "tests/support/golden_models.h"
#include "tests/support/golden_run.h"
#include "tests/support/json_file.h"

namespace quire {
namespace {

Json first_run(const std::string& folder) {
  return (*read_json(kQuantisedFolders + folder + "/expected.json").find("runs")->as_array())[0];
}

class QuantisedFolder : public testing::TestWithParam<std::string> {};

TEST_P(QuantisedFolder, MatchesTheReference) {
  const Json run = first_run(GetParam());
  std::vector<ModelOptions> ways = {{.backend = "ref", .threads = 1, .weights = "f32"},
                                    {.backend = "ref", .threads = 1}};
  for (const std::string& isa : cpu_isas()) {
    ways.push_back({.backend = "cpu", .isa = isa, .threads = 2, .weights = "f32"});
    ways.push_back({.backend = "cpu", .isa = isa, .threads = 2});
  }
  for (ModelOptions options : ways) {
    SCOPED_TRACE(options.backend + " " + options.isa + " " + options.weights);
    options.model = kQuantisedFolders + GetParam();
    options.kv_type = "f32";
    const Result<LoadedModel> loaded = load(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    check_run(*loaded, run, options.isa == "avx2" ? 7 : 256, options.weights.empty() ? kRounded : kTolerance);
    if (HasFatalFailure()) return;
  }
}

// Whatever the instruction set, the threads and the chunks.
TEST_P(QuantisedFolder, GivesTheSameBitsEverywhere) {
  const std::vector<Token> ids = tokens_of(*first_run(GetParam()).find("prompt_ids"));
  std::vector<float> first;
  for (const std::string& isa : cpu_isas()) {
    for (const int threads : {1, 3}) {
      const Result<LoadedModel> loaded =
          load({.model = kQuantisedFolders + GetParam(), .isa = isa, .threads = threads, .kv_type = "f32"});
      ASSERT_TRUE(loaded) << loaded.error().message;
      const auto logits = logits_of(*loaded, ids, threads == 1 ? 256 : 5);
      ASSERT_TRUE(logits);
      if (first.empty()) first = *logits;
      ASSERT_EQ(*logits, first) << isa << ' ' << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, QuantisedFolder, testing::ValuesIn(quantised_folders()), golden_model_name);

// All ways of repacking are among the fixtures.
TEST(QuantisedFolders, UseEveryFormatAndOrder) {
  std::set<std::string_view> formats;
  size_t n_ordered = 0;
  for (const std::string& name : quantised_folders()) {
    const Result<ModelFile> file = open_model(kQuantisedFolders + name);
    ASSERT_TRUE(file) << file.error().message;
    for (const HostWeight& weight : file->tensors) {
      if (weight.made == nullptr) continue;
      formats.insert(weight.format->name);
      n_ordered += weight.order().empty() ? 0 : 1;
    }
  }
  EXPECT_EQ(formats, (std::set<std::string_view>{"f32", "f4_64", "f8_128", "f8_32", "mxfp4", "q4_0", "q4_z128",
                                                 "q4_z32", "q8_0", "q8_z32", "tq2_0"}));
  EXPECT_GT(n_ordered, 20U);
}

// [n_rows, n_cols] of any kind, decoded. REQUIRES columns that are in order.
std::vector<float> numbers_of(const HostWeight& weight) {
  std::vector<std::byte> room;
  const std::byte* rows = weight.rows(0, weight.n_rows(), room);
  std::vector<float> out(static_cast<size_t>(weight.n_rows() * weight.n_cols()));
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(weight.format->block)) {
    weight.format->decode(rows, out.data() + i);
    rows += weight.format->bytes;
  }
  return out;
}

// Of each head 48 rows make keys of a latent, and 32 values: the first become columns.
TEST(QuantisedFolders, LatentMatricesAreTheFoldersNumbersInAnotherOrder) {
  const Result<ModelFile> folder = open_model(std::string(kQuantisedFolders) + "fp8-latent");
  ASSERT_TRUE(folder) << folder.error().message;
  const Result<ModelFile> file = neutral_form(*folder);
  ASSERT_TRUE(file) << file.error().message;
  constexpr size_t kHeads = 2, kKeys = 48, kValues = 32, kLatent = 160;
  const HostWeight& stored = *folder->find("model.layers.0.self_attn.kv_b_proj.weight");
  ASSERT_NE(stored.made, nullptr);
  ASSERT_EQ(stored.shape, (std::vector<int64_t>{kHeads * (kKeys + kValues), kLatent}));
  const std::vector<float> all = numbers_of(stored);
  const std::vector<float> keys = numbers_of(*file->find("blk.0.attn_k_b.weight"));
  const std::vector<float> values = numbers_of(*file->find("blk.0.attn_v_b.weight"));
  std::vector<float> wanted_keys, wanted_values;
  for (size_t h = 0; h < kHeads; ++h) {
    const float* head = all.data() + h * (kKeys + kValues) * kLatent;
    for (size_t column = 0; column < kLatent; ++column) {
      for (size_t row = 0; row < kKeys; ++row) wanted_keys.push_back(head[row * kLatent + column]);
    }
    wanted_values.insert(wanted_values.end(), head + kKeys * kLatent, head + (kKeys + kValues) * kLatent);
  }
  EXPECT_EQ(keys, wanted_keys);
  EXPECT_EQ(values, wanted_values);
}

TEST(QuantisedFolders, AreNotWrittenAsGguf) {
  const Result<ModelFile> folder = open_model(std::string(kQuantisedFolders) + "awq-4");
  ASSERT_TRUE(folder) << folder.error().message;
  const Result<ModelFile> file = gguf_form(*folder);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::unsupported);
  EXPECT_NE(file.error().message.find("_proj.weight\": is quantised"), std::string::npos) << file.error().message;
}

}  // namespace
}  // namespace quire
