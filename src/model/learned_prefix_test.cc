#include "model/learned_prefix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace quire {
namespace {

namespace fs = std::filesystem;

// A model of 2 layers, 2 heads of 8 that keys and values have, and embeddings of 32.
ModelInfo info() {
  ModelInfo out;
  out.arch = "llama";
  out.n_layers = 2;
  out.n_kv_heads = 2;
  out.head_dim = 8;
  out.n_rope = 8;
  out.n_embd = 32;
  for (int64_t layer = 0; layer < 2; ++layer) {
    AttnParams& own = out.attention.emplace_back();
    own.n_kv_heads = 2;
    own.k_dim = own.v_dim = 8;
    own.kv_offset = 64 * layer;
  }
  return out;
}

class LearnedPrefixFolder : public testing::Test {
 protected:
  LearnedPrefixFolder() : folder_(testing::TempDir() + "learned_prefix") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void config(const std::string& with, const std::string& kind = "PREFIX_TUNING", int token_dim = 16) {
    std::ofstream(folder_ + "/adapter_config.json")
        << R"({"peft_type":")" << kind << R"(","num_virtual_tokens":3,"num_layers":2,"num_attention_heads":2,)"
        << R"("task_type":"CAUSAL_LM","token_dim":)" << token_dim << with << "}";
  }
  void weights(const std::string& name, const std::string& dtype, const std::string& shape, std::vector<float> values) {
    const size_t bytes = values.size() * (dtype == "F32" ? 4 : 2);
    const std::string header = "{\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
                               R"(,"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
    std::ofstream out(folder_ + "/adapter_model.safetensors", std::ios::binary);
    const uint64_t n = header.size();
    out.write(reinterpret_cast<const char*>(&n), 8);
    out << header;
    out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(bytes));
  }
  std::string refusal(const ModelInfo& of = info()) const {
    const auto loaded = load_learned_prefix(folder_, of);
    if (loaded) return "";
    const std::string& text = loaded.error().message;
    return text.starts_with(folder_ + ": ") ? text.substr(folder_.size() + 2) : "no folder: " + text;
  }
  static std::vector<float> counted(int n) {
    std::vector<float> out;
    out.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) out.push_back(static_cast<float>(i));
    return out;
  }

  std::string folder_;
};

TEST_F(LearnedPrefixFolder, KeysLieAsTheModelsOwn) {
  config("");
  weights("prompt_embeddings", "F32", "[3,64]", counted(192));
  const auto halves = load_learned_prefix(folder_, info());
  ASSERT_TRUE(halves) << halves.error().message;
  EXPECT_EQ(halves->n_tokens, 3);
  EXPECT_EQ(halves->values, counted(192));
  ModelInfo paired = info();
  paired.rope_pairs = RopePairs::interleaved;
  paired.n_rope = 6;  // two components of a head do not turn
  const auto pairs = load_learned_prefix(folder_, paired);
  ASSERT_TRUE(pairs);
  const std::vector<float>& v = pairs->values;
  EXPECT_EQ(std::vector<float>(v.begin(), v.begin() + 8), (std::vector<float>{0, 3, 1, 4, 2, 5, 6, 7}));
  EXPECT_EQ(std::vector<float>(v.begin() + 8, v.begin() + 16), (std::vector<float>{8, 11, 9, 12, 10, 13, 14, 15}));
  EXPECT_EQ(std::vector<float>(v.begin() + 16, v.begin() + 32),
            std::vector<float>(halves->values.begin() + 16, halves->values.begin() + 32))
      << "values do not turn";
  EXPECT_EQ(v[32], 32.0F);
  EXPECT_EQ(v[33], 35.0F);
}

TEST_F(LearnedPrefixFolder, KeysOfFamiliesThatPairNeighboursThemselvesLieRightAlready) {
  config("");
  weights("prompt_embeddings", "F32", "[3,64]", counted(192));
  for (const char* arch : {"command-r", "cohere2", "glm4", "ernie4_5", "ernie4_5-moe"}) {
    ModelInfo paired = info();
    paired.arch = arch;
    paired.rope_pairs = RopePairs::interleaved;
    const auto read = load_learned_prefix(folder_, paired);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->values, counted(192)) << arch;
  }
}

TEST_F(LearnedPrefixFolder, ContentNamesIt) {
  config("");
  std::vector<float> values = counted(192);
  weights("prompt_embeddings", "F32", "[3,64]", values);
  const uint64_t content = load_learned_prefix(folder_, info())->content;
  EXPECT_EQ(load_learned_prefix(folder_, info())->content, content);
  values.back() += 1;
  weights("prompt_embeddings", "F32", "[3,64]", values);
  EXPECT_NE(load_learned_prefix(folder_, info())->content, content);
}

TEST_F(LearnedPrefixFolder, RefusesAnotherModels) {
  config("");
  weights("prompt_embeddings", "F32", "[3,64]", counted(192));
  EXPECT_EQ(refusal(), "");
  ModelInfo other = info();
  other.n_layers = 3;
  EXPECT_EQ(refusal(other), "adapter_config.json: key \"num_layers\": must be 3 as the model's, found 2");
  other = info();
  other.head_dim = 16;
  for (AttnParams& layer : other.attention) layer.k_dim = layer.v_dim = 16;
  EXPECT_EQ(refusal(other), "adapter_config.json: key \"token_dim\": must be 32 as the model's, found 16");
  other = info();
  other.attention[1].kv_offset = 0;
  EXPECT_EQ(refusal(other),
            "adapter_config.json: key \"peft_type\": PREFIX_TUNING is not known for a model whose layers' keys differ "
            "or are shared");
  weights("prompt_embeddings", "F32", "[3,32]", counted(96));
  EXPECT_EQ(refusal(), "adapter_model.safetensors: tensor \"prompt_embeddings\": must have shape [3, 64], has [3, 32]");
  ModelInfo another;
  another.arch = "other";
  EXPECT_EQ(load_learned_prefix(folder_, another).error().message,
            folder_ + ": a model of architecture other takes no learned prefix");
}

TEST_F(LearnedPrefixFolder, RefusesWhatItDoesNotKnow) {
  weights("prompt_embeddings", "F32", "[3,64]", counted(192));
  EXPECT_EQ(refusal(), "adapter_config.json: cannot be read");
  config(R"(,"r":8)");
  EXPECT_EQ(refusal(), "adapter_config.json: key \"r\": is not known for a learned prefix");
  config(R"(,"modules_to_save":["lm_head"])");
  EXPECT_EQ(refusal(), "adapter_config.json: key \"modules_to_save\": is not known for a learned prefix");
  config(R"(,"init_weights":null)");
  EXPECT_EQ(refusal(), "");
  config("", "LORA");
  EXPECT_EQ(refusal(),
            "adapter_config.json: key \"peft_type\": must be PREFIX_TUNING, PROMPT_TUNING or P_TUNING, found \"LORA\"");
  config("");
  weights("base_model.lora_A", "F32", "[3,64]", counted(192));
  EXPECT_EQ(refusal(),
            "adapter_model.safetensors: tensor \"base_model.lora_A\": is not known for a learned prefix, which has "
            "\"prompt_embeddings\" alone");
  weights("prompt_embeddings", "I16", "[3,64]", counted(192));
  EXPECT_TRUE(refusal().starts_with("adapter_model.safetensors: tensor \"prompt_embeddings\": byte ")) << refusal();
  EXPECT_NE(refusal().find("dtype I16 is not supported"), std::string::npos) << refusal();
  std::vector<float> values = counted(192);
  values[7] = std::numeric_limits<float>::infinity();
  weights("prompt_embeddings", "F32", "[3,64]", values);
  EXPECT_EQ(refusal(), "adapter_model.safetensors: tensor \"prompt_embeddings\": value 7 is not finite");
}

TEST_F(LearnedPrefixFolder, EmbeddingsOfPromptTuning) {
  config("", "PROMPT_TUNING", 32);
  weights("prompt_embeddings", "F32", "[3,32]", counted(96));
  const auto loaded = load_learned_prefix(folder_, info());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->kind, LearnedPrefix::Kind::embeddings);
  EXPECT_EQ(loaded->values, counted(96));
  ModelInfo scaled = info();
  scaled.scales_embedding = true;
  EXPECT_EQ(refusal(scaled),
            "adapter_config.json: embeddings of virtual tokens are not known for llama, which changes its own");
}

}  // namespace
}  // namespace quire
