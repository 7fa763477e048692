// LoRA adapters against the peft package (tests/golden/adapters, made by tools/fixtures/make_lora_fixtures.py), from
// Hugging Face folders and from GGUF, whose rows of q and k lie otherwise.
#include "io/gguf_writer.h"
#include "model/hf_names.h"
#include "model/lora.h"
#include "model/peft_folder.h"
#include "tests/support/peft_run.h"

namespace quire {
namespace {

BaseModel base_of(const PeftCase& c) { return {c.model, find_weight_format(c.weights)}; }

std::function<void(Request&)> with_adapter(const PeftCase& c, const LoadedModel& loaded, EngineEnv&) {
  const auto read = load_lora(c.folder, *loaded.model, *loaded.ops, base_of(c), int64_t{1} << 30);
  EXPECT_TRUE(read) << read.error().message;
  if (!read) return {};
  return [adapter = *read](Request& request) { request.adapter = adapter; };
}

// All experts of a layer of olmoe_experts: 8, of rank 2. There down_proj has an alpha of 3, all others of 4.
void add_experts(GgufWriter& out,
                 const SafeTensor& tensor,
                 const std::string& module,
                 const MappedFile& map,
                 std::vector<std::vector<float>>& all) {
  constexpr int64_t kExperts = 8, kRank = 2;
  const bool is_down = !module.ends_with(".base_layer"), is_b = tensor.name.ends_with("lora_B.weight");
  const std::string name = std::string("blk.") + module[std::string_view("model.layers.").size()] +
                           (is_down ? ".ffn_down_exps.weight" : ".ffn_gate_up_exps.weight");
  const std::vector<float> was = *read_finite(tensor, tensor.shape, map);
  std::vector<float> values = was;
  const int64_t n_out = tensor.shape[0];
  for (size_t i = 0; i < was.size() && is_b; ++i) {  // [n_out, rank, experts] to [experts, n_out, rank]
    const auto at = static_cast<int64_t>(i), row = at / (kRank * kExperts), j = at / kExperts % kRank;
    values[static_cast<size_t>((at % kExperts * n_out + row) * kRank + j)] = is_down ? was[i] * 0.75F : was[i];
  }
  const std::vector<int64_t> shape =
      is_b ? std::vector<int64_t>{kExperts, n_out, kRank} : std::vector<int64_t>{kExperts, kRank, tensor.shape[1]};
  EXPECT_TRUE(out.add_tensor(name + (is_b ? ".lora_b" : ".lora_a"), 0, shape));
  all.push_back(std::move(values));
}

// The same adapter as llama.cpp's converter would write it: GGUF's names, its rows of q and k.
std::string as_gguf(const std::string& folder, const ModelInfo& info) {
  const Result<TensorFile> file = open_tensor_file(folder, "adapter_model.safetensors");
  EXPECT_TRUE(file);
  const std::string path = testing::TempDir() + "adapter.gguf";
  GgufWriter out(path);
  out.add_string("general.type", "adapter");
  out.add_string("general.architecture", info.arch);
  out.add_string("adapter.type", "lora");
  const Json config = read_json(folder + "/adapter_config.json");
  if (const Json* tokens = config.find("alora_invocation_tokens"); tokens != nullptr && tokens->as_array() != nullptr)
    out.add_i32s("adapter.alora.invocation_tokens", tokens_of(*tokens));
  out.add_f32("adapter.lora.alpha", static_cast<float>(config.find("lora_alpha")->number()));
  std::vector<std::vector<float>> all;
  for (const SafeTensor& tensor : file->tensors) {
    constexpr std::string_view kFront = "base_model.model.";
    if (tensor.name.ends_with(".base_layer.weight")) continue;
    const size_t end = tensor.name.rfind(".lora_");
    const std::string module = tensor.name.substr(kFront.size(), end - kFront.size());
    if (module.find(".experts") != std::string::npos) {
      add_experts(out, tensor, module, *file->map, all);
      continue;
    }
    const std::string name = our_names(module + ".weight", Registry<ArchEntry>::get().find(info.arch)->hf).front().name;
    const bool is_b = tensor.name.find("_B", end) != std::string::npos;
    std::vector<float> values = *read_finite(tensor, tensor.shape, *file->map);
    std::vector<int64_t> shape = tensor.shape;
    if (name == "token_embd.weight" && !is_b) {
      const std::vector<float> was = values;
      std::swap(shape[0], shape[1]);
      for (size_t i = 0; i < was.size(); ++i) {
        const auto n = static_cast<size_t>(shape[1]);
        values[i] = was[i % n * static_cast<size_t>(shape[0]) + i / n];
      }
    }
    const bool turns = name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight");
    if (is_b && turns && Registry<ArchEntry>::get().find(info.arch)->hf.pairs_in_gguf) {  // [heads, 2, half, rank] to
                                                                                          // [heads, half, 2, rank]
      const std::vector<float> was = values;
      const int64_t rank = tensor.shape[1], half = info.head_dim / 2;
      for (int64_t i = 0; i < tensor.shape[0]; ++i) {
        const int64_t head = i / (2 * half), part = i / half % 2, at = i % half;
        std::copy_n(was.begin() + i * rank, rank, values.begin() + (head * 2 * half + 2 * at + part) * rank);
      }
    }
    EXPECT_TRUE(out.add_tensor(name + (is_b ? ".lora_b" : ".lora_a"), 0, shape));
    all.push_back(std::move(values));
  }
  for (const std::vector<float>& values : all) EXPECT_TRUE(out.write(std::as_bytes(std::span(values))));
  EXPECT_TRUE(out.finish());
  return path;
}

// Of a folder's model and of a GGUF file's: what is multiplied is the same, bit for bit.
TEST(AdapterFiles, AreWhatTheirFoldersAre) {
  for (const std::string name : {"llama_all", "llama_activated", "phi3_fused", "granite_ends", "olmoe_experts"}) {
    for (const char* file : {"", "/model.gguf"}) {
      SCOPED_TRACE(name + file);
      const std::string model = "build/golden/models/" + name.substr(0, name.find('_')) + file;
      const Result<LoadedModel> loaded = load({.model = model, .isa = cpu_isas().back(), .threads = 1});
      ASSERT_TRUE(loaded) << loaded.error().message;
      const std::string folder = "tests/golden/adapters/" + name;
      const std::string path = as_gguf(folder, loaded->model->info());
      const auto wanted = load_lora(folder, *loaded->model, *loaded->ops, {model}, int64_t{1} << 30);
      const auto found = load_lora(path, *loaded->model, *loaded->ops, {model}, int64_t{1} << 30);
      ASSERT_TRUE(wanted) << wanted.error().message;
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ((*found)->content, (*wanted)->content);
      EXPECT_NE((*found)->content, 0U);
    }
  }
}

// And so are the answers.
std::function<void(Request&)> with_file(const PeftCase& c, const LoadedModel& loaded, EngineEnv&) {
  const auto read =
      load_lora(as_gguf(c.folder, loaded.model->info()), *loaded.model, *loaded.ops, base_of(c), int64_t{1} << 30);
  EXPECT_TRUE(read) << read.error().message;
  if (!read) return {};
  return [adapter = *read](Request& request) { request.adapter = adapter; };
}

TEST(AdapterFiles, MatchPeft) {
  const std::string model = "build/golden/models/llama";
  for (const std::string its : {"tests/golden/adapters/llama_all", "tests/golden/adapters/llama_activated"}) {
    check_peft({"llama", its, its, model, "f32", "f32", 1e-3, 0}, &with_file);
    check_peft({"llama.gguf", its, its, model + "/model.gguf", "f32", "f32", 1e-3, 0}, &with_file);
  }
}

class GoldenAdapter : public testing::TestWithParam<PeftCase> {};

TEST_P(GoldenAdapter, MatchesPeft) { check_peft(GetParam(), &with_adapter); }

std::vector<PeftCase> cases() {
  const std::string folder = "tests/golden/adapters/", models = "build/golden/models/";
  std::vector<PeftCase> out;
  for (const std::string name :
       {"llama_all",          "llama_some",         "llama_activated", "phi3_fused",     "gptneox_fused",
        "qwen3moe_attention", "llama_dora",         "gptneox_dora",    "granite_ends",   "granite_tied",
        "gptneox_ends",       "olmoe_experts",      "qwen2moe_shared", "mixtral_router", "gpt-oss_experts",
        "llama4_experts",     "granitemoe_experts", "qwen3moe_each",   "qwen3moe_dora",  "gpt2_turned",
        "falcon_fused"}) {
    const std::string model = models + name.substr(0, name.find('_')), its = folder + name;
    out.push_back({name + ".folder", its, its, model, "f32", "f32", 1e-3, 0});
    out.push_back({name + ".gguf", its, its, model + "/model.gguf", "f32", "f32", 1e-3, 0});
    // Where logprobs go down to -37, or a row's experts are close to others, rounded weights are measured by nothing.
    constexpr std::string_view kUnmeasured[] = {"granite", "qwen2moe_",     "mixtral_",     "gpt-oss_",
                                                "llama4_", "qwen3moe_each", "qwen3moe_dora"};
    if (std::ranges::any_of(kUnmeasured, [&](std::string_view front) { return name.starts_with(front); })) continue;
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
