#include "model/gguf_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "base/json.h"
#include "io/hf_config.h"
#include "model/config.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kConfig = R"({"model_type":"%","hidden_size":4,"num_hidden_layers":1,"intermediate_size":8,
    "num_attention_heads":2,"num_key_value_heads":1,"head_dim":4,"max_position_embeddings":64,"rope_theta":10000.0,
    "hidden_act":"silu","eos_token_id":[5,-1,7,1099511627776],"tie_word_embeddings":true
    %})";

struct Folder {
  explicit Folder(const std::string& type, const std::string& more = "") {
    std::string config(kConfig);
    config.replace(config.find('%'), 1, type);
    config.replace(config.find('%'), 1, more);
    file.path = "folder";
    file.is_hugging_face = true;
    file.meta = *read_hf_config(*Json::parse(config));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t row = i / 4;
      numbers[i] = static_cast<float>(row);
    }
    add("model.embed_tokens.weight", {8, 4});
    add("model.layers.0.self_attn.k_proj.weight", {4, 4});
    add("model.layers.0.self_attn.q_proj.weight", {8, 4});
    add("model.norm.weight", {4});
  }
  void add(const std::string& name, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    const auto bytes = std::as_bytes(std::span(numbers)).first(static_cast<size_t>(n) * 4);
    file.tensors.push_back({name, find_weight_format(std::string_view("f32")), std::move(shape), bytes});
  }
  std::vector<float> numbers = std::vector<float>(64);
  ModelFile file;
};

// The first number of each row.
std::vector<float> rows_of(const ModelFile& file, std::string_view name) {
  const HostWeight& weight = *file.find(name);
  std::vector<float> out;
  for (int64_t r = 0; r < weight.shape.front(); ++r) {
    float value = 0;
    std::memcpy(&value, weight.data.data() + r * weight.format->row_bytes(weight.n_cols()), sizeof value);
    out.push_back(value);
  }
  return out;
}

TEST(GgufForm, HalvesOfLlamasHeadsBecomePairs) {
  const Folder folder("llama");
  const auto out = gguf_form(folder.file);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_THAT(rows_of(*out, "blk.0.attn_q.weight"), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(rows_of(*out, "blk.0.attn_k.weight"), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(rows_of(*out, "token_embd.weight"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(out->meta.find("llama.rope.halves"), nullptr);
  EXPECT_EQ(*out->meta.get_int("llama.attention.key_length", 1, 512), 4);
  EXPECT_EQ(*out->meta.get_int("llama.attention.value_length", 1, 512), 4);
}

TEST(GgufForm, MistralIsLlamaThereAndOthersStayAsTheyAre) {
  const Folder mistral_folder("mistral");
  const auto mistral = gguf_form(mistral_folder.file);
  ASSERT_TRUE(mistral) << mistral.error().message;
  EXPECT_EQ(*mistral->meta.get_string("general.architecture"), "llama");
  EXPECT_EQ(*mistral->meta.get_int("llama.block_count", 0, 9), 1);
  EXPECT_THAT(rows_of(*mistral, "blk.0.attn_k.weight"), ElementsAre(0, 2, 1, 3));
  const Folder qwen_folder("qwen2");
  const auto qwen = gguf_form(qwen_folder.file);
  ASSERT_TRUE(qwen) << qwen.error().message;
  EXPECT_THAT(rows_of(*qwen, "blk.0.attn_k.weight"), ElementsAre(0, 1, 2, 3));
}

TEST(GgufForm, Llama3ScalingIsATensorThatGivesTheSameFrequencies) {
  const Folder folder("llama", R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
      "high_freq_factor":4.0,"original_max_position_embeddings":32})");
  const auto wanted = read_decoder_config(*neutral_form(folder.file), {});
  const auto out = gguf_form(folder.file);
  ASSERT_TRUE(wanted && out);
  EXPECT_EQ(out->meta.find("llama.rope.scaling.type"), nullptr);
  const auto got = read_decoder_config(*out, {});
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->rope.freq.size(), wanted->rope.freq.size());
  for (size_t i = 0; i < got->rope.freq.size(); ++i) {
    const auto a = std::bit_cast<double>(got->rope.freq[i]);
    const auto b = std::bit_cast<double>(wanted->rope.freq[i]);
    EXPECT_NEAR(a / b, 1.0, 1e-7);
  }
}

TEST(GgufForm, ExpertsBecomeOneTensorOfALayer) {
  Folder folder("mixtral", R"(,"num_local_experts":2,"num_experts_per_tok":1)");
  const std::vector<float> second(32, 7.0F);
  folder.add("model.layers.0.block_sparse_moe.experts.0.w1.weight", {8, 4});
  folder.add("model.layers.0.block_sparse_moe.experts.1.w1.weight", {8, 4});
  folder.file.tensors.back().data = std::as_bytes(std::span(second));
  const auto out = gguf_form(folder.file);
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(*out->meta.get_string("general.architecture"), "llama");
  const HostWeight* gate = out->find("blk.0.ffn_gate_exps.weight");
  ASSERT_NE(gate, nullptr);
  EXPECT_THAT(gate->shape, ElementsAre(2, 8, 4));
  std::vector<float> values(64);
  ASSERT_EQ(gate->data.size(), 64 * sizeof(float));
  std::memcpy(values.data(), gate->data.data(), gate->data.size());
  EXPECT_TRUE(std::equal(values.begin(), values.begin() + 32, folder.numbers.begin()));
  EXPECT_TRUE(std::equal(values.begin() + 32, values.end(), second.begin()));
  EXPECT_EQ(out->find("blk.0.ffn_gate.0.weight"), nullptr);
  std::erase_if(folder.file.tensors, [](const HostWeight& w) { return w.name.find(".1.w1") != std::string::npos; });
  const auto missing = gguf_form(folder.file);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("model.layers.0.block_sparse_moe.experts.1.w1.weight"));
}

// Frequencies and magnitude at a served context, of a folder and of what is written of it.
void expect_same_rope(const std::string& scaling, const std::string& arch, int n_ctx) {
  const Folder folder(arch, ",\"rope_scaling\":" + scaling);
  LoadOptions served;
  served.n_ctx = n_ctx;
  const auto wanted = read_decoder_config(*neutral_form(folder.file), served);
  const auto form = gguf_form(folder.file);
  ASSERT_TRUE(wanted && form) << (form ? wanted.error().message : form.error().message);
  const auto got = read_decoder_config(*form, served);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->n_ctx, wanted->n_ctx);
  EXPECT_NEAR(got->rope.magnitude, wanted->rope.magnitude, 1e-7);
  ASSERT_EQ(got->rope.freq.size(), wanted->rope.freq.size());
  for (size_t i = 0; i < got->rope.freq.size(); ++i) {
    EXPECT_NEAR(std::bit_cast<double>(got->rope.freq[i]) / std::bit_cast<double>(wanted->rope.freq[i]), 1.0, 1e-7);
  }
}

TEST(GgufForm, EveryScalingIsReadBackTheSameAtEveryContext) {
  for (const int n_ctx : {16, 33, 64, 200}) {
    expect_same_rope(R"({"rope_type":"default"})", "qwen2", n_ctx);
    expect_same_rope(R"({"rope_type":"linear","factor":3.0})", "llama", n_ctx);
    expect_same_rope(R"({"rope_type":"dynamic","factor":3.0})", "llama", n_ctx);
    expect_same_rope(R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32})", "qwen2", n_ctx);
    expect_same_rope(R"({"rope_type":"yarn","factor":8.0,"original_max_position_embeddings":32,"mscale":1.5,
        "mscale_all_dim":0.5,"beta_fast":16.0,"beta_slow":2.0})",
                     "qwen3", n_ctx);
    expect_same_rope(R"({"rope_type":"yarn","factor":8.0,"original_max_position_embeddings":32,"truncate":false,
        "attention_factor":1.25})",
                     "llama", n_ctx);
    expect_same_rope(R"({"rope_type":"longrope","original_max_position_embeddings":32,"short_factor":[1,1.5],
        "long_factor":[2.5,4.0]})",
                     "phi3", n_ctx);
    expect_same_rope(R"({"type":"su","factor":4.0,"attention_factor":1.5,"original_max_position_embeddings":32,
        "short_factor":[1.25,1.5],"long_factor":[2,4]})",
                     "phi3", n_ctx);
  }
}

// The names under facts of `arch`.
std::vector<std::string> scaling_facts(const ModelFile& file, const std::string& arch) {
  std::vector<std::string> out;
  const std::string prefix = arch + ".rope.scaling.";
  for (const auto& [key, value] : file.meta.values) {
    if (key.starts_with(prefix)) out.push_back(key.substr(prefix.size()));
  }
  return out;
}

std::vector<float> vector_of(const ModelFile& file, std::string_view name) {
  const HostWeight& weight = *file.find(name);
  std::vector<float> out(static_cast<size_t>(weight.n_cols()));
  std::memcpy(out.data(), weight.data.data(), weight.data.size());
  return out;
}

TEST(GgufForm, ScalingIsSaidInGgufsWords) {
  const Folder plain("llama", R"(,"rope_scaling":{"rope_type":"default"})");
  EXPECT_THAT(scaling_facts(*gguf_form(plain.file), "llama"), ElementsAre());
  const Folder yarn("qwen2", R"(,"rope_scaling":{"rope_type":"yarn","factor":4.0,"attention_factor":1.5,
      "original_max_position_embeddings":32})");
  EXPECT_THAT(scaling_facts(*gguf_form(yarn.file), "qwen2"),
              ElementsAre("attn_factor", "factor", "original_context_length", "type"));
  for (const char* odd : {R"("truncate":false)", R"("beta_fast":16.0)"}) {
    const Folder unusual("llama", R"(,"rope_scaling":{"rope_type":"yarn","factor":4.0,"attention_factor":1.5,)" +
                                      std::string(odd) + R"(,"original_max_position_embeddings":32})");
    const auto divided = gguf_form(unusual.file);
    EXPECT_THAT(scaling_facts(*divided, "llama"), ElementsAre("attn_factor"));
    EXPECT_NE(divided->find("rope_freqs.weight"), nullptr);
    EXPECT_EQ(*divided->meta.get_int("llama.context_length", 1, 1 << 20), 128);
  }
  const Folder dynamic("llama", R"(,"rope_scaling":{"rope_type":"dynamic","factor":2.0})");
  const auto form = gguf_form(dynamic.file);
  EXPECT_EQ(*form->meta.get_string("llama.rope.scaling.type"), "none");
  EXPECT_THAT(scaling_facts(*form, "llama"), ElementsAre("original_context_length", kDynamicFactor, "type"));
  const Folder longrope("phi3", R"(,"rope_scaling":{"rope_type":"longrope","factor":4.0,"short_factor":[1,1.5],
      "long_factor":[2.5,4.0],"original_max_position_embeddings":32})");
  const auto factors = gguf_form(longrope.file);
  EXPECT_THAT(scaling_facts(*factors, "phi3"), ElementsAre("attn_factor", "original_context_length", "type"));
  EXPECT_THAT(vector_of(*factors, "rope_factors_long.weight"), ElementsAre(2.5F, 4.0F));
  EXPECT_THAT(vector_of(*factors, "rope_factors_short.weight"), ElementsAre(1.0F, 1.5F));
}

TEST(GgufForm, FactorsOfTheWrongNumberAreRefusedBothShortAndLong) {
  for (const char* factors :
       {R"("short_factor":[1],"long_factor":[2,4])", R"("short_factor":[1,2],"long_factor":[])"}) {
    const Folder folder("phi3", R"(,"rope_scaling":{"rope_type":"longrope","original_max_position_embeddings":32,)" +
                                    std::string(factors) + "}");
    const auto out = gguf_form(folder.file);
    ASSERT_FALSE(out);
    EXPECT_THAT(out.error().message, HasSubstr("must hold 2 positive numbers"));
  }
}

TEST(GgufForm, EndsThatAreNoIdsAreLeftOut) {
  const Folder folder("llama");
  const auto out = gguf_form(folder.file);
  ASSERT_TRUE(out);
  const MetaValue* ends = out->meta.find(kEndTokensKey);
  ASSERT_NE(ends, nullptr);
  EXPECT_THAT(std::get<std::vector<int64_t>>(*ends), ElementsAre(5, 7));
}

TEST(GgufForm, RefusesRowsThatAreNoHeads) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {6, 4}, {2, 2, 4}}) {
    Folder folder("llama");
    folder.add("model.layers.1.self_attn.q_proj.weight", shape);
    const auto out = gguf_form(folder.file);
    ASSERT_FALSE(out);
    EXPECT_THAT(out.error().message, HasSubstr("\"model.layers.1.self_attn.q_proj.weight\": must have 8 rows"));
  }
}

}  // namespace
}  // namespace quire
