// Learned prefixes against the peft package (tests/golden/prefixes, made by tools/fixtures/make_prefix_fixtures.py),
// from Hugging Face folders and from GGUF, whose keys lie otherwise.
#include "model/learned_prefix.h"
#include "tests/support/peft_run.h"

namespace quire {
namespace {

std::function<void(Request&)> with_prefix(const PeftCase& c, const LoadedModel& loaded, EngineEnv& env) {
  auto read = load_learned_prefix(c.folder, loaded.model->info());
  EXPECT_TRUE(read) << read.error().message;
  if (!read) return {};
  const auto prefix = std::make_shared<const LearnedPrefix>(std::move(*read));
  env.prefixes = {
      {prefix->content, prefix->n_tokens, [prefix, model = loaded.model.get()](const Pass& pass, int begin) {
         write_learned_prefix(*prefix, *model, pass, begin);
       }}};
  return [content = prefix->content](Request& request) { request.prefix = content; };
}

class GoldenPrefix : public testing::TestWithParam<PeftCase> {};

TEST_P(GoldenPrefix, MatchesPeft) { check_peft(GetParam(), &with_prefix); }

std::vector<PeftCase> cases() {
  const std::string folder = "tests/golden/prefixes/", models = "build/golden/models/";
  std::vector<PeftCase> out;
  for (const std::string name : {"command-r_prefix", "ernie4_5_prefix", "glm4_prefix", "llama_prefix", "llama_prompt",
                                 "phi3_prefix", "qwen3_prefix"}) {
    const std::string model = models + name.substr(0, name.rfind('_')), its = folder + name;
    out.push_back({name + ".folder", its, its, model, "f32", "f32", 1e-3, 0});
    out.push_back({name + ".gguf", its, its, model + "/model.gguf", "f32", "f32", 1e-3, 0});
    out.push_back({name + ".q8", its, its, model, "q8", "f32", 0.25, 0.25});
  }
  const std::string radio = "models/adapters/radio", quill = "models/quill-q8_0.gguf";
  out.push_back({"radio.gguf", folder + "radio", radio, quill, "f32", "f32", 1e-3, 1e-3});
  out.push_back({"radio.f16", folder + "radio", radio, quill, "f16", "f32", 0.02, 0.02});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenPrefix, testing::ValuesIn(cases()), peft_case_name);

}  // namespace
}  // namespace quire
