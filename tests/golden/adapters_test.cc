// LoRA adapters against the peft package (tests/golden/adapters, made by tools/fixtures/make_lora_fixtures.py), from
// Hugging Face folders and from GGUF, whose rows of q and k lie otherwise.
#include "model/lora.h"
#include "tests/support/peft_run.h"

namespace quire {
namespace {

std::function<void(Request&)> with_adapter(const PeftCase& c, const LoadedModel& loaded, EngineEnv&) {
  const auto read = load_lora(c.folder, *loaded.model, *loaded.ops, int64_t{1} << 30);
  EXPECT_TRUE(read) << read.error().message;
  if (!read) return {};
  return [adapter = *read](Request& request) { request.adapter = adapter; };
}

class GoldenAdapter : public testing::TestWithParam<PeftCase> {};

TEST_P(GoldenAdapter, MatchesPeft) { check_peft(GetParam(), &with_adapter); }

std::vector<PeftCase> cases() {
  const std::string folder = "tests/golden/adapters/", models = "tests/golden/models/";
  std::vector<PeftCase> out;
  for (const std::string name : {"llama_all", "llama_some", "phi3_fused", "gptneox_fused", "qwen3moe_attention"}) {
    const std::string model = models + name.substr(0, name.find('_')), its = folder + name;
    out.push_back({name + ".folder", its, its, model, "f32", "f32", 1e-3, 0});
    out.push_back({name + ".gguf", its, its, model + "/model.gguf", "f32", "f32", 1e-3, 0});
    out.push_back({name + ".q8", its, its, model, "f32", "q8_0", 0.5, 0.2});
  }
  for (const std::string name : {"pirate", "german"})
    out.push_back(
        {name + ".gguf", folder + name, "models/adapters/" + name, "models/quill-q8_0.gguf", "f32", "f32", 1e-3, 1e-3});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GoldenAdapter, testing::ValuesIn(cases()), peft_case_name);

}  // namespace
}  // namespace quire
