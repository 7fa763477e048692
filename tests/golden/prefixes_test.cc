// Learned prefixes against the peft package (tests/golden/prefixes, made by tools/fixtures/make_prefix_fixtures.py), as
// the engine serves them: every greedy choice and every logprob of the text, on every backend and instruction set, from
// Hugging Face folders and from GGUF, whose keys lie otherwise.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/wire.h"
#include "backend/cpu/cpu_ops.h"
#include "base/sanitized.h"
#include "model/learned_prefix.h"
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
  std::string name, prefix, model, kv_type, weights;
  double tolerance;   // of logprobs
  double min_margin;  // a greedy choice that was closer than this ends the comparison
};

std::vector<Token> tokens_of(const Json& list) {
  std::vector<Token> out;
  for (const Json& item : *list.as_array()) out.push_back(static_cast<Token>(*item.as_int()));
  return out;
}

void check_run(Engine& engine, uint64_t content, const Json& run, const Case& c) {
  const std::vector<Token> greedy = tokens_of(*run.find("greedy_ids"));
  const Json::Array& truth = *run.find("logprobs")->as_array();
  Request request;
  request.prompt = tokens_of(*run.find("prompt_ids"));
  request.prefix = content;
  request.max_tokens = static_cast<int>(greedy.size());
  request.sampling.temperature = 0;
  request.sampling.n_logprobs = request.sampling.n_prompt_logprobs = 0;
  const auto ear = std::make_shared<Ear>();
  ASSERT_TRUE(engine.submit(std::move(request), ear));
  while (engine.step()) EXPECT_EQ(engine.snapshot().check(), "");
  ASSERT_EQ(ear->error, "");
  if (run.find("min_margin")->number() < c.min_margin) return;
  EXPECT_EQ(ear->answer, greedy);
  ASSERT_EQ(ear->logprobs.size(), truth.size());
  for (size_t i = 0; i < truth.size(); ++i) EXPECT_NEAR(ear->logprobs[i], truth[i].number(), c.tolerance) << i;
}

void check(const Case& c, const ModelOptions& how, int max_chunk) {
  const Result<LoadedModel> loaded = load(how);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto read = load_learned_prefix(c.prefix, loaded->model->info());
  ASSERT_TRUE(read) << read.error().message;
  SystemClock clock;
  EngineEnv env;
  env.clock = &clock;
  env.prefixes = {{read->content, read->n_tokens,
                   [&](const Pass& pass, int begin) { write_learned_prefix(*read, *loaded->model, pass, begin); }}};
  EngineOptions options;
  options.n_ctx = 128;
  options.max_chunk = options.step_tokens = max_chunk;
  const auto engine = make_engine(*loaded->model, *loaded->ops, options, env);
  ASSERT_TRUE(engine) << engine.error().message;
  const Json expected = read_json("tests/golden/prefixes/" + c.name.substr(0, c.name.find('.')) + "/expected.json");
  for (const Json& run : *expected.find("runs")->as_array()) check_run(**engine, read->content, run, c);
}

class GoldenPrefix : public testing::TestWithParam<Case> {};

TEST_P(GoldenPrefix, MatchesPeft) {
  const Case& c = GetParam();
  const auto with = [&](const std::string& backend, const std::string& isa) {
    return ModelOptions{
        .model = c.model, .backend = backend, .isa = isa, .threads = 1, .kv_type = c.kv_type, .weights = c.weights};
  };
  if (!kSanitized) check(c, with("ref", ""), 128);
  for (const std::string& isa : cpu_isas()) {
    SCOPED_TRACE(isa);
    check(c, with("cpu", isa), isa == "avx2" ? 7 : 128);
  }
}

std::vector<Case> cases() {
  const std::string folder = "tests/golden/prefixes/", models = "tests/golden/models/";
  std::vector<Case> out;
  for (const std::string name : {"command-r_prefix", "ernie4_5_prefix", "glm4_prefix", "llama_prefix", "llama_prompt",
                                 "phi3_prefix", "qwen3_prefix"}) {
    const std::string model = models + name.substr(0, name.rfind('_'));
    out.push_back({name + ".folder", folder + name, model, "f32", "f32", 1e-3, 0});
    out.push_back({name + ".gguf", folder + name, model + "/model.gguf", "f32", "f32", 1e-3, 0});
    out.push_back({name + ".q8", folder + name, model, "q8", "f32", 0.15, 0.15});
  }
  out.push_back({"radio.gguf", "models/adapters/radio", "models/quill-q8_0.gguf", "f32", "f32", 1e-3, 1e-3});
  out.push_back({"radio.f16", "models/adapters/radio", "models/quill-q8_0.gguf", "f16", "f32", 0.02, 0.02});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenPrefix, testing::ValuesIn(cases()), [](const auto& each) {
  std::string name = each.param.name;
  for (char& c : name) {
    if (c == '.' || c == '-') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace quire
