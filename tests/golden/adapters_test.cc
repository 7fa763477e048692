// LoRA adapters against the peft package (tests/golden/adapters, made by tools/fixtures/make_lora_fixtures.py), as the
// engine serves them: every greedy choice and every logprob of the text, on every backend and instruction set, from
// Hugging Face folders and from GGUF, whose rows of q and k lie otherwise.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/wire.h"
#include "backend/cpu/cpu_ops.h"
#include "base/sanitized.h"
#include "model/lora.h"
#include "tests/support/json_file.h"

namespace quire {
namespace {

class Ear final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    if (!event.prompt) answer.push_back(event.id);
    logprobs.push_back(event.logprob);
  }
  void on_finish(SeqId, Finish, const Usage&, const std::string& message) override { error = message; }
  std::vector<Token> answer;
  std::vector<float> logprobs;
  std::string error;
};

struct Case {
  std::string name, adapter, model, weights;
  double tolerance;   // of logprobs
  double min_margin;  // where a greedy choice was closer than this the prompt alone is compared
};

std::vector<Token> tokens_of(const Json& list) {
  std::vector<Token> out;
  for (const Json& item : *list.as_array()) out.push_back(static_cast<Token>(*item.as_int()));
  return out;
}

void check_run(Engine& engine, const std::shared_ptr<const Adapter>& adapter, const Json& run, const Case& c) {
  const std::vector<Token> greedy = tokens_of(*run.find("greedy_ids"));
  const Json::Array& truth = *run.find("logprobs")->as_array();
  Request request;
  request.prompt = tokens_of(*run.find("prompt_ids"));
  request.adapter = adapter;
  request.max_tokens = static_cast<int>(greedy.size());
  request.sampling.temperature = 0;
  request.sampling.n_logprobs = request.sampling.n_prompt_logprobs = 0;
  const auto ear = std::make_shared<Ear>();
  ASSERT_TRUE(engine.submit(std::move(request), ear));
  while (engine.step()) EXPECT_EQ(engine.snapshot().check(), "");
  ASSERT_EQ(ear->error, "");
  const bool is_close = run.find("min_margin")->number() < c.min_margin;
  EXPECT_TRUE(is_close || ear->answer == greedy);
  ASSERT_EQ(ear->logprobs.size(), truth.size());
  const size_t n = is_close ? truth.size() - greedy.size() : truth.size();
  for (size_t i = 0; i < n; ++i) EXPECT_NEAR(ear->logprobs[i], truth[i].number(), c.tolerance) << i;
}

void check(const Case& c, const ModelOptions& how, int max_chunk) {
  const Result<LoadedModel> loaded = load(how);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto read = load_lora(c.adapter, *loaded->model, *loaded->ops, int64_t{1} << 30);
  ASSERT_TRUE(read) << read.error().message;
  SystemClock clock;
  EngineEnv env;
  env.clock = &clock;
  EngineOptions options;
  options.n_ctx = 128;
  options.max_chunk = options.step_tokens = max_chunk;
  const auto engine = make_engine(*loaded->model, *loaded->ops, options, env);
  ASSERT_TRUE(engine) << engine.error().message;
  const Json expected = read_json("tests/golden/adapters/" + c.name.substr(0, c.name.find('.')) + "/expected.json");
  for (const Json& run : *expected.find("runs")->as_array()) check_run(**engine, *read, run, c);
}

class GoldenAdapter : public testing::TestWithParam<Case> {};

TEST_P(GoldenAdapter, MatchesPeft) {
  const Case& c = GetParam();
  const auto with = [&](const std::string& backend, const std::string& isa) {
    return ModelOptions{
        .model = c.model, .backend = backend, .isa = isa, .threads = 1, .kv_type = "f32", .weights = c.weights};
  };
  if (!kSanitized) check(c, with("ref", ""), 128);
  for (const std::string& isa : cpu_isas()) {
    SCOPED_TRACE(isa);
    check(c, with("cpu", isa), isa == "avx2" ? 7 : 128);
  }
}

std::vector<Case> cases() {
  const std::string folder = "tests/golden/adapters/", models = "tests/golden/models/";
  std::vector<Case> out;
  for (const std::string name : {"llama_all", "llama_some", "phi3_fused", "gptneox_fused", "qwen3moe_attention"}) {
    const std::string model = models + name.substr(0, name.find('_'));
    out.push_back({name + ".folder", folder + name, model, "f32", 1e-3, 0});
    out.push_back({name + ".gguf", folder + name, model + "/model.gguf", "f32", 1e-3, 0});
    out.push_back({name + ".q8", folder + name, model, "q8_0", 0.5, 0.2});
  }
  for (const std::string name : {"pirate", "german"})
    out.push_back({name + ".gguf", "models/adapters/" + name, "models/quill-q8_0.gguf", "f32", 1e-3, 1e-3});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenAdapter, testing::ValuesIn(cases()), [](const auto& each) {
  std::string name = each.param.name;
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace quire
