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
#include "tests/support/json_file.h"

namespace quire {
namespace {

constexpr const char* kFolder = "tests/golden/models/";
constexpr double kTolerance = 2e-3;  // absolute; the values are of the order of 1

class Pooled final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent&) override {}
  void on_pooled(SeqId, std::span<const float> values) override { hidden.assign(values.begin(), values.end()); }
  void on_finish(SeqId, Finish, const Usage&, const std::string& message) override { error = message; }
  std::vector<float> hidden;
  std::string error;
};

std::vector<float> pooled(Engine& engine, const Json& prompt, Pool pool) {
  Request request;
  for (const Json& id : *prompt.as_array()) request.prompt.push_back(static_cast<Token>(*id.as_int()));
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
  const std::string folder = kFolder + GetParam();
  if (!std::filesystem::exists(folder + "/embeddings.json")) GTEST_SKIP() << "no " << folder << "/embeddings.json";
  const Json expected = read_json(folder + "/embeddings.json");
  const Json& prompt = *expected.find("prompt_ids");
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
        for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i].number(), kTolerance) << name << " " << i;
        EXPECT_EQ(pooled(**engine, prompt, pool), got) << name << ", again, with a cache that is filled";
      }
    }
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
