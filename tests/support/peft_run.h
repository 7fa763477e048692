// What the peft package computed of a model with one of its folders (expected.json of tests/golden/adapters and of
// tests/golden/prefixes) against what the engine serves: every greedy choice and every logprob of the text, on every
// backend and instruction set.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "base/sanitized.h"
#include "tests/support/golden_run.h"
#include "tests/support/json_file.h"

namespace quire {

struct PeftCase {
  std::string name, expected, folder, model, kv_type, weights;
  double tolerance;   // of logprobs
  double min_margin;  // where a greedy choice was closer than this the prompt alone is compared
};

// Reads a case's folder for a loaded model; what it returns makes a request one that has it. Empty: it failed.
using PeftReader = std::function<void(Request&)> (*)(const PeftCase& c, const LoadedModel& loaded, EngineEnv& env);

class PeftEar final : public EventSink {
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

inline void check_peft_run(Engine& engine, Request request, const Json& run, const PeftCase& c) {
  const std::vector<Token> greedy = tokens_of(*run.find("greedy_ids"));
  const Json::Array& truth = *run.find("logprobs")->as_array();
  request.prompt = tokens_of(*run.find("prompt_ids"));
  request.max_tokens = static_cast<int>(greedy.size());
  request.sampling.temperature = 0;
  request.sampling.n_logprobs = request.sampling.n_prompt_logprobs = 0;
  const auto ear = std::make_shared<PeftEar>();
  ASSERT_TRUE(engine.submit(std::move(request), ear));
  while (engine.step()) EXPECT_EQ(engine.snapshot().check(), "");
  ASSERT_EQ(ear->error, "");
  const bool is_close = run.find("min_margin")->number() < c.min_margin;
  EXPECT_TRUE(is_close || ear->answer == greedy);
  ASSERT_EQ(ear->logprobs.size(), truth.size());
  const size_t n = is_close ? truth.size() - greedy.size() : truth.size();
  for (size_t i = 0; i < n; ++i) EXPECT_NEAR(ear->logprobs[i], truth[i].number(), c.tolerance) << i;
}

inline void check_peft_on(const PeftCase& c, const ModelOptions& how, int max_chunk, PeftReader read) {
  const Result<LoadedModel> loaded = load(how);
  ASSERT_TRUE(loaded) << loaded.error().message;
  SystemClock clock;
  EngineEnv env;
  env.clock = &clock;
  const std::function<void(Request&)> add = read(c, *loaded, env);
  ASSERT_TRUE(add);
  EngineOptions options;
  options.n_ctx = 128;
  options.max_chunk = options.step_tokens = max_chunk;
  const auto engine = make_engine(*loaded->model, *loaded->ops, options, env);
  ASSERT_TRUE(engine) << engine.error().message;
  const Json expected = read_json(c.expected + "/expected.json");
  for (const Json& run : *expected.find("runs")->as_array()) {
    Request request;
    add(request);
    check_peft_run(**engine, std::move(request), run, c);
  }
}

inline void check_peft(const PeftCase& c, PeftReader read) {
  const auto with = [&](const std::string& backend, const std::string& isa) {
    return ModelOptions{
        .model = c.model, .backend = backend, .isa = isa, .threads = 1, .kv_type = c.kv_type, .weights = c.weights};
  };
  if (!kSanitized) check_peft_on(c, with("ref", ""), 128, read);
  for (const std::string& isa : cpu_isas()) {
    SCOPED_TRACE(isa);
    check_peft_on(c, with("cpu", isa), isa == "avx2" ? 7 : 128, read);
  }
}

// As GoogleTest spells a case.
inline std::string peft_case_name(const testing::TestParamInfo<PeftCase>& each) {
  std::string name = each.param.name;
  std::ranges::replace_if(name, [](char c) { return c == '.' || c == '-'; }, '_');
  return name;
}

}  // namespace quire
