// Real trained models against a float64 reference (expected.json beside them): prompt ids, greedy continuations and
// logits, on every backend and instruction set, in one pass and in chunks. The bundled model
// and its expected.json are in models/; the other data are not part of the repository: QUIRE_SHARED names their folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "app/forward.h"
#include "app/wire.h"
#include "backend/cpu/cpu_ops.h"
#include "base/sanitized.h"
#include "tests/support/json_file.h"

namespace quire {
namespace {

std::string shared_folder() {
  const char* named = std::getenv("QUIRE_SHARED");
  return named != nullptr ? named : "../shared";
}

struct Case {
  std::string model, variant, file;
  std::string kv_type;
  double tolerance;          // of logits
  double margin;             // greedy choices closer than this may differ
  std::string weights = {};  // converted to while loading
};

using TokenSet = std::set<Token>;

// Of the model's file and its expected.json.
std::string folder_of(const Case& c) {
  return c.model == "bundled" ? "models" : shared_folder() + "/data/models/" + c.model;
}

std::vector<Token> tokens_of(const Json& list) {
  std::vector<Token> out;
  for (const Json& item : *list.as_array()) out.push_back(static_cast<Token>(*item.as_int()));
  return out;
}

// Feeds prompt and expected continuation; at every step the expected id must be our largest logit unless the two
// largest are closer than `margin`. Banned ids are never chosen.
void check_prompt(const LoadedModel& loaded, const Json& expected, const Case& c, const TokenSet& banned, int chunk) {
  const std::vector<Token> prompt = tokens_of(*expected.find("prompt_ids"));
  const std::vector<Token> greedy = tokens_of(*expected.find("greedy_ids"));
  std::vector<Token> ids;
  loaded.tokenizer->encode(*expected.find("prompt")->as_string(), {.add_special = true, .parse_special = true}, ids);
  EXPECT_EQ(ids, prompt);
  std::vector<Token> all = prompt;
  all.insert(all.end(), greedy.begin(), greedy.end() - 1);
  Result<Forward> forward = Forward::make(*loaded.model, *loaded.ops, static_cast<int>(all.size()), chunk);
  ASSERT_TRUE(forward) << forward.error().message;
  std::vector<float> logits;
  for (size_t at = 0; at < all.size(); at += static_cast<size_t>(chunk)) {
    const size_t n = std::min(static_cast<size_t>(chunk), all.size() - at);
    const Tensor part = *forward->run(std::span(all).subspan(at, n));
    logits.insert(logits.end(), part.ptr<float>(), part.ptr<float>() + part.n_elements());
  }
  const auto n_vocab = static_cast<size_t>(loaded.model->info().n_vocab);
  const Json::Array& truth = *expected.find("last_prompt_logits")->as_array();
  ASSERT_EQ(truth.size(), n_vocab);
  double worst = 0;
  for (size_t i = 0; i < n_vocab; ++i) {
    worst =
        std::max(worst, std::fabs(static_cast<double>(logits[(prompt.size() - 1) * n_vocab + i]) - truth[i].number()));
  }
  EXPECT_LE(worst, c.tolerance);
  for (size_t step = 0; step < greedy.size(); ++step) {
    const std::span<float> row = std::span(logits).subspan((prompt.size() - 1 + step) * n_vocab, n_vocab);
    for (const Token id : banned) row[static_cast<size_t>(id)] = -INFINITY;
    const auto top = std::max_element(row.begin(), row.end());
    const float chosen = row[static_cast<size_t>(greedy[step])];
    if (static_cast<double>(*top - chosen) > c.margin) {
      ADD_FAILURE() << "step " << step << ": expected " << greedy[step] << " at " << chosen << ", got "
                    << top - row.begin() << " at " << *top;
      return;
    }
  }
}

struct Backend {
  std::string backend, isa;
};

class GoldenModel : public testing::TestWithParam<Case> {};

TEST_P(GoldenModel, MatchesTheReference) {
  const Case& c = GetParam();
  const std::string folder = folder_of(c);
  if (!std::filesystem::exists(folder + "/" + c.file)) GTEST_SKIP() << "no " << c.file << " in " << folder;
  const Json expected = read_json(folder + "/expected.json");
  const Json* variants = expected.find("variants");
  ASSERT_NE(variants, nullptr);
  TokenSet banned;
  if (const Json* ids = expected.find("banned_ids")) {
    for (const Token id : tokens_of(*ids)) banned.insert(id);
  }
  std::vector<Backend> backends = {{"ref", ""}};
  for (const std::string& isa : cpu_isas()) backends.push_back({"cpu", isa});
  if (kSanitized) backends = {backends.back()};
  for (const Backend& b : backends) {
    SCOPED_TRACE(b.backend + " " + b.isa);
    const Result<LoadedModel> loaded =
        load(ModelOptions{folder + "/" + c.file, b.backend, b.isa, b.isa == "scalar" ? 1 : 2, c.kv_type, c.weights});
    ASSERT_TRUE(loaded) << loaded.error().message;
    for (const Json& prompt : *variants->find(c.variant)->as_array()) {
      SCOPED_TRACE(*prompt.find("prompt")->as_string());
      check_prompt(*loaded, prompt, c, banned, b.isa == "avx2" ? 7 : 256);
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& each) {
  const bool is_folder = each.param.file == "hf";
  std::string name = (is_folder ? each.param.model + "_" : "") + each.param.file + "_kv_" + each.param.kv_type;
  if (!each.param.weights.empty()) name += "_as_" + each.param.weights;
  std::replace_if(
      name.begin(), name.end(), [](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) == 0; }, '_');
  return name;
}

// The f32 path holds 1e-3 with exact keys and values, 0.03 with f16 ones; the others also round or quantise
// activations.
INSTANTIATE_TEST_SUITE_P(Shared,
                         GoldenModel,
                         testing::Values(Case{"stories260K", "f32", "stories260K.gguf", "f32", 1e-3, 0.01},
                                         Case{"stories260K", "f32", "stories260K.gguf", "f16", 0.03, 0.03},
                                         Case{"stories260K", "f16", "stories260K-f16.gguf", "f32", 1e-3, 0.01},
                                         Case{"stories260K", "bf16", "stories260K-bf16.gguf", "f32", 0.1, 0.1},
                                         Case{"stories260K", "bf16", "stories260K-bf16.gguf", "bf16", 0.2, 0.2},
                                         Case{"stories260K", "f32", "hf", "f32", 1e-3, 0.01},
                                         Case{"poem-zh-2048", "f32", "poem-zh-2048-f32.gguf", "f32", 1e-3, 0.01},
                                         Case{"poem-zh-2048", "q8_0", "poem-zh-2048-q8_0.gguf", "f32", 0.3, 0.3},
                                         Case{"babyllama-105", "f32", "hf", "f32", 1e-3, 0.01},
                                         Case{"babyllama-105", "f32", "babyllama-105-f32.gguf", "f32", 1e-3, 0.01},
                                         Case{"babyllama-105", "f32", "babyllama-105-f32.gguf", "f16", 0.03, 0.03},
                                         Case{"babyllama-105", "q8_0", "babyllama-105-q8_0.gguf", "f32", 0.3, 0.3},
                                         Case{"babyllama-105", "q4_0", "babyllama-105-q4_0.gguf", "f32", 0.3, 0.3},
                                         Case{"babyllama-105", "q5_1", "babyllama-105-q5_1.gguf", "f32", 0.3, 0.3}),
                         name_of);

// Logits of the bundled model have a spread of about 5. Its Q8_0 kernels also quantise activations.
constexpr const char* kQuill = "quill-q8_0.gguf";
INSTANTIATE_TEST_SUITE_P(Bundled,
                         GoldenModel,
                         testing::Values(Case{"bundled", kQuill, kQuill, "f32", 1e-3, 0.01, "f32"},
                                         Case{"bundled", kQuill, kQuill, "f16", 0.05, 0.05, "f32"},
                                         Case{"bundled", kQuill, kQuill, "bf16", 0.1, 0.1, "f32"},
                                         Case{"bundled", kQuill, kQuill, "q8", 0.2, 0.2, "f32"},
                                         Case{"bundled", kQuill, kQuill, "f16", 0.5, 0.5}),
                         name_of);

}  // namespace
}  // namespace quire
