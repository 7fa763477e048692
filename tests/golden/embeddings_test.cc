// Pooled hidden states of every architecture against the transformers package (embeddings.json beside the models, made
// by tools/fixtures/make_embedding_fixtures.py), through the engine: on the reference backend and on every instruction
// set, in one chunk and in small ones, from the cache and not.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "app/wire.h"
#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/sanitized.h"
#include "engine/engine.h"
#include "spec/proposer.h"
#include "tests/support/golden_models.h"
#include "tests/support/golden_run.h"
#include "tests/support/json_file.h"

namespace quire {
namespace {

constexpr double kNear = 2e-3;  // absolute; the values are of the order of 1

class Pooled final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override {}
  void on_pooled(SeqId, std::span<const float> values) override { hidden.assign(values.begin(), values.end()); }
  void on_finish(SeqId, Finish, const Usage&, const std::string& message) override { error = message; }
  std::vector<float> hidden;
  std::string error;
};

std::vector<float> pooled(Engine& engine, const std::vector<Token>& prompt, Pool pool) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = 1;
  request.pool = pool;
  const auto sink = std::make_shared<Pooled>();
  EXPECT_TRUE(engine.submit(std::move(request), sink));
  while (engine.step()) {
  }
  EXPECT_EQ(sink->error, "");
  return sink->hidden;
}

class Embeddings : public testing::TestWithParam<std::string> {};

TEST_P(Embeddings, MatchTheReference) {
  const std::string folder = kGoldenModels + GetParam();
  if (!std::filesystem::exists(folder + "/embeddings.json")) GTEST_SKIP() << "no " << folder << "/embeddings.json";
  const Json expected = read_json(folder + "/embeddings.json");
  const std::vector<Token> prompt = tokens_of(*expected.find("prompt_ids"));
  // As f32: products with BF16 weights round activations.
  std::vector<ModelOptions> ways = {{.backend = "ref", .threads = 1, .weights = "f32"}};
  for (const std::string& isa : cpu_isas()) {
    ways.push_back({.backend = "cpu", .isa = isa, .threads = 2, .weights = "f32"});
  }
  if (kSanitized) ways = {ways.back()};
  for (ModelOptions options : ways) {
    SCOPED_TRACE(options.backend + " " + options.isa);
    options.model = folder;
    options.kv_type = "f32";
    const Result<LoadedModel> loaded = load(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    for (const int chunk : {512, 7}) {
      EngineOptions wanted;
      wanted.max_chunk = chunk;
      wanted.kv_bytes = 1 << 22;
      SystemClock clock;
      EngineEnv env;
      env.clock = &clock;
      const auto engine = make_engine(*loaded->model, *loaded->ops, wanted, env);
      ASSERT_TRUE(engine) << engine.error().message;
      for (const auto& [name, pool] : {std::pair{"last", Pool::last}, std::pair{"mean", Pool::mean}}) {
        const std::vector<float> got = pooled(**engine, prompt, pool);
        const Json::Array& want = *expected.find(name)->as_array();
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i].number(), kNear) << name << " " << i;
        EXPECT_EQ(pooled(**engine, prompt, pool), got) << name << ", again, with a cache that is filled";
      }
    }
  }
}

// Keeps the hidden state that the first answered token was drawn from, and never guesses.
class Keeper final : public Proposer {
 public:
  Keeper(Ops& ops, int n_embd) : memory_(*ops.allocate(kRows * n_embd * int64_t{sizeof(float)})) {
    tap_.out = Tensor::dense(memory_.data(), DType::f32, {kRows, n_embd});
  }
  int max_draft() const override { return 1; }
  std::span<const Tap> taps() const override { return {&tap_, 1}; }
  void propose(std::span<Draft> drafts) override {
    ASSERT_EQ(drafts.size(), 1U);
    ASSERT_GE(drafts[0].tapped, 0);
    const float* row = tap_.out.row<float>(drafts[0].tapped);
    if (first.empty()) first.assign(row, row + tap_.out.dim(1));
  }
  std::vector<float> first;

 private:
  static constexpr int64_t kRows = 1024;
  Buffer memory_;
  Tap tap_;
};

// What passes hand out is what is pooled of the prompt's last token, bit for bit.
TEST_P(Embeddings, AreWhatPassesHandOut) {
  const std::string folder = golden_path(GetParam());
  std::vector<Token> prompt;
  for (Token id = 0; id < 40; ++id) prompt.push_back(3 + id * 7 % 50);
  for (const char* backend : {"ref", "cpu"}) {
    ModelOptions options{.backend = backend, .threads = 1};
    options.model = folder;
    const Result<LoadedModel> loaded = load(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const ModelInfo& info = loaded->model->info();
    const auto keeper = std::make_shared<Keeper>(*loaded->ops, info.n_embd);
    EngineOptions wanted;
    wanted.kv_bytes = 1 << 22;
    SystemClock clock;
    EngineEnv env;
    env.clock = &clock;
    env.proposer = keeper;
    const auto engine = make_engine(*loaded->model, *loaded->ops, wanted, env);
    ASSERT_TRUE(engine) << engine.error().message;
    const std::vector<float> last = pooled(**engine, prompt, Pool::last);
    EXPECT_TRUE(keeper->first.empty()) << "an answer of one token wants no guess";
    Request request;
    request.prompt = prompt;
    request.max_tokens = 4;
    ASSERT_TRUE((*engine)->submit(std::move(request), std::make_shared<Pooled>()));
    while ((*engine)->step()) {
    }
    ASSERT_EQ(keeper->first.size(), static_cast<size_t>(info.n_embd));
    EXPECT_EQ(keeper->first, last) << backend;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry,
                         Embeddings,
                         testing::ValuesIn(Registry<ArchEntry>::get().names()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quire
