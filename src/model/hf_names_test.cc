#include "model/hf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/json.h"
#include "io/hf_config.h"
#include "model/config.h"
#include "model/model.h"

namespace quire {
namespace {

using testing::HasSubstr;

const std::vector<float> kNumbers = {1.0F, -0.5F, 0.25F, 3.0F};

ModelFile folder_of(std::string_view config, const std::vector<std::string>& names) {
  ModelFile file;
  file.path = "some/folder";
  file.is_hugging_face = true;
  file.meta = *read_hf_config(*Json::parse(config));
  for (const std::string& name : names) {
    file.tensors.push_back({name, find_weight_format("f32"), {4}, std::as_bytes(std::span(kNumbers))});
  }
  return file;
}

std::string names_of(const ModelFile& file) {
  std::string out;
  for (const HostWeight& weight : file.tensors) out += (out.empty() ? "" : " ") + weight.name;
  return out;
}

std::string error_of(std::string_view config, const std::vector<std::string>& names) {
  const auto file = neutral_form(folder_of(config, names));
  return file ? "translated" : file.error().message;
}

TEST(HfNames, TensorsAndFactsGetTheirOwnNames) {
  const auto file = neutral_form(
      folder_of(R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"rope_theta":5e5,"head_dim":null})",
                {"model.embed_tokens.weight", "model.layers.12.self_attn.q_proj.weight",
                 "model.layers.3.mlp.down_proj.weight", "model.norm.weight"}));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(names_of(*file), "blk.12.attn_q.weight blk.3.ffn_down.weight output_norm.weight token_embd.weight");
  EXPECT_EQ(*file->meta.get_string("general.architecture"), "llama");
  EXPECT_EQ(*file->meta.get_string("general.name"), "folder");
  EXPECT_EQ(*file->meta.get_int("llama.embedding_length", 0, 100), 64);
  EXPECT_EQ(*file->meta.get_double("llama.rope.freq_base", 0, 1e9), 5e5);
  EXPECT_EQ(file->meta.find("llama.attention.key_length"), nullptr);
  EXPECT_TRUE(*file->meta.get_bool_or("llama.rope.halves", false));
}

TEST(HfNames, ExpertsHaveTwoNumbers) {
  const auto file = neutral_form(
      folder_of(R"({"model_type":"qwen3_moe","num_experts":8,"num_experts_per_tok":3,"norm_topk_prob":false})",
                {"model.layers.12.mlp.gate.weight", "model.layers.3.mlp.experts.7.down_proj.weight",
                 "model.layers.3.mlp.experts..down_proj.weight", "model.layers.3.mlp.experts.7x.down_proj.weight"}));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(names_of(*file), "blk.12.ffn_gate_inp.weight blk.3.ffn_down.7.weight");
  EXPECT_EQ(*file->meta.get_int("qwen3moe.expert_count", 0, 9), 8);
  EXPECT_EQ(*file->meta.get_int("qwen3moe.expert_used_count", 0, 9), 3);
  EXPECT_FALSE(*file->meta.get_bool_or("qwen3moe.expert_weights_norm", true));
  const auto mixtral = neutral_form(folder_of(R"({"model_type":"mixtral","num_local_experts":8})",
                                              {"model.layers.0.block_sparse_moe.experts.1.w2.weight"}));
  ASSERT_TRUE(mixtral) << mixtral.error().message;
  EXPECT_EQ(names_of(*mixtral), "blk.0.ffn_down.1.weight");
}

TEST(HfNames, TensorsWithoutARuleAreLeftOut) {
  const auto file =
      neutral_form(folder_of(R"({"model_type":"llama"})",
                             {"model.layers.x.mlp.down_proj.weight", "model.layers..mlp.down_proj.weight",
                              "model.layers.1234567.mlp.down_proj.weight", "vision.weight", "model.norm.weight"}));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(names_of(*file), "output_norm.weight");
}

TEST(HfNames, ATextModelInsideAnotherIsFound) {
  const auto file = neutral_form(folder_of(
      R"({"model_type":"gemma3","text_config":{"query_pre_attn_scalar":16,"sliding_window":512}})",
      {"language_model.model.layers.0.mlp.up_proj.weight", "model.language_model.layers.1.mlp.up_proj.weight"}));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(names_of(*file), "blk.0.ffn_up.weight blk.1.ffn_up.weight");
  EXPECT_EQ(*file->meta.get_double("gemma3.attention.scale", 0, 1), 0.25);
  EXPECT_EQ(*file->meta.get_int("gemma3.attention.sliding_window", 0, 1000), 512);
}

TEST(HfNames, NormsStoredLessOneGetItBack) {
  const auto file =
      neutral_form(folder_of(R"({"model_type":"gemma2","query_pre_attn_scalar":16})",
                             {"model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.up_proj.weight"}));
  ASSERT_TRUE(file) << file.error().message;
  const HostWeight* norm = file->find("blk.0.post_attention_norm.weight");
  ASSERT_NE(norm, nullptr);
  for (size_t i = 0; i < kNumbers.size(); ++i) {
    float value = 0;
    norm->format->decode(norm->data.data() + i * 4, &value);
    EXPECT_EQ(value, kNumbers[i] + 1.0F);
  }
  EXPECT_EQ(file->find("blk.0.ffn_up.weight")->data.data(), std::as_bytes(std::span(kNumbers)).data());
}

// Rows of a quantised tensor whose column j is the weight's column order[j]; row i of the weight is 100 · i + column.
class OrderedRows final : public MadeRows {
 public:
  explicit OrderedRows(std::vector<int32_t> order) : order_(std::move(order)) {}
  std::string kind() const override { return "rows of a test"; }
  std::vector<std::span<const std::byte>> stored() const override { return {}; }
  std::span<const int32_t> order() const override { return order_; }
  void make(int64_t first, int64_t n, std::byte* out) const override {
    for (int64_t i = first; i < first + n; ++i) {
      for (const int32_t column : order_) {
        const auto value = static_cast<float>(100 * i + column);
        std::memcpy(out, &value, sizeof(value));
        out += sizeof(value);
      }
    }
  }

 private:
  std::vector<int32_t> order_;
};

std::vector<float> numbers_of(const ModelFile& file, std::string_view name) {
  const HostWeight& weight = *file.find(name);
  EXPECT_EQ(weight.format->name, "f32");
  EXPECT_EQ(weight.made, nullptr);
  std::vector<float> out(weight.data.size() / sizeof(float));
  std::memcpy(out.data(), weight.data.data(), weight.data.size());
  return out;
}

TEST(HfNames, QuantisedTensorsAreReshapedAsFloats) {
  ModelFile folder = folder_of(
      R"({"model_type":"deepseek_v3","num_attention_heads":2,"qk_nope_head_dim":2,"v_head_dim":1,"qk_rope_head_dim":2,"kv_lora_rank":3})",
      {"model.layers.0.self_attn.kv_b_proj.weight", "model.layers.0.self_attn.o_proj.weight"});
  for (HostWeight& weight : folder.tensors) {
    weight.shape = {6, 3};  // of each of two heads two rows of keys and one of values
    weight.data = {};
    weight.made = std::make_shared<OrderedRows>(std::vector<int32_t>{2, 0, 1});
  }
  const auto file = neutral_form(folder);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("blk.0.attn_k_b.weight")->shape, (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(numbers_of(*file, "blk.0.attn_k_b.weight"),
            (std::vector<float>{0, 100, 1, 101, 2, 102, 300, 400, 301, 401, 302, 402}));
  EXPECT_EQ(file->find("blk.0.attn_v_b.weight")->shape, (std::vector<int64_t>{2, 1, 3}));
  EXPECT_EQ(numbers_of(*file, "blk.0.attn_v_b.weight"), (std::vector<float>{200, 201, 202, 500, 501, 502}));
  EXPECT_NE(file->find("blk.0.attn_output.weight")->made, nullptr);  // rows are all that a product reads
}

TEST(HfNames, AQuantisedTensorOfAnotherShapeAloneOutlivesItsFolder) {
  const auto translated = [] {
    ModelFile folder = folder_of(R"({"model_type":"minimax","num_hidden_layers":2,"num_attention_heads":1})",
                                 {"model.layers.0.self_attn.qkv_proj.weight", "model.embed_tokens.weight"});
    for (HostWeight& weight : folder.tensors) {
      weight.shape = {3, 2};
      weight.data = {};
      weight.made = std::make_shared<OrderedRows>(std::vector<int32_t>{1, 0});
    }
    return neutral_form(folder);
  }();
  ASSERT_TRUE(translated) << translated.error().message;
  const std::vector<float> wanted = {0, 1, 100, 101, 200, 201};
  EXPECT_EQ(numbers_of(*translated, "blk.0.attn_qkv.weight"), wanted);
  EXPECT_EQ(numbers_of(*translated, "token_embd.weight"), wanted);  // rows of it are looked up: columns are in order
}

TEST(HfNames, ATiedHeadIsTheEmbedding) {
  const std::vector<std::string> both = {"lm_head.weight", "model.embed_tokens.weight"};
  EXPECT_EQ(names_of(*neutral_form(folder_of(R"({"model_type":"llama"})", both))), "output.weight token_embd.weight");
  EXPECT_EQ(names_of(*neutral_form(folder_of(R"({"model_type":"llama","tie_word_embeddings":true})", both))),
            "token_embd.weight");
  EXPECT_THAT(error_of(R"({"model_type":"llama","tie_word_embeddings":false})", {"model.embed_tokens.weight"}),
              HasSubstr("lm_head.weight"));
  EXPECT_THAT(error_of(R"({"model_type":"llama","tie_word_embeddings":1})", both), HasSubstr("must be a bool"));
}

TEST(HfNames, RefusesByKeyAndValue) {
  EXPECT_THAT(error_of("{}", {}), HasSubstr("some/folder: key \"model_type\": is missing"));
  EXPECT_THAT(error_of(R"({"model_type":"rwkv"})", {}), HasSubstr("\"rwkv\" is not supported; known:"));
  EXPECT_THAT(error_of(R"({"model_type":"llama","hidden_act":"relu"})", {}), HasSubstr("\"relu\" is not supported"));
  EXPECT_THAT(error_of(R"({"model_type":"llama","hidden_act":7})", {}), HasSubstr("must be a string"));
  EXPECT_THAT(error_of(R"({"model_type":"llama","rope_scaling":{"rope_type":"mrope"}})", {}),
              HasSubstr("\"mrope\" is not supported"));
  EXPECT_THAT(error_of(R"({"model_type":"llama","partial_rotary_factor":0})", {}), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(error_of(R"({"model_type":"gemma2","query_pre_attn_scalar":0})", {}), HasSubstr("query_pre_attn_scalar"));
  EXPECT_THAT(error_of(R"({"model_type":"llama"})", {"model.norm.weight", "language_model.model.norm.weight"}),
              HasSubstr("two tensors mean \"model.norm.weight\""));
}

// What the architecture finds missing or wrong is told in the folder's words, by key and by tensor.
TEST(HfNames, RefusesKindsOfLayersThatItDoesNotKnow) {
  EXPECT_THAT(error_of(R"({"model_type":"qwen3","layer_types":["full_attention","linear_attention"]})", {}),
              HasSubstr("some/folder: config.json: key \"layer_types\": \"linear_attention\" is not supported; known: "
                        "full_attention sliding_attention"));
}

TEST(HfNames, ErrorsSpeakOfTheFolder) {
  const auto error_of_config = [](std::string_view config) {
    const auto read = read_decoder_config(*neutral_form(folder_of(config, {})), LoadOptions{});
    return read ? "read" : read.error().message;
  };
  const std::string sizes =
      R"("model_type":"llama","num_hidden_layers":2,"intermediate_size":96,"max_position_embeddings":128)";
  EXPECT_THAT(error_of_config("{" + sizes + "}"), HasSubstr("some/folder: key \"hidden_size\": is missing"));
  EXPECT_THAT(error_of_config("{" + sizes + R"(,"hidden_size":"64"})"),
              HasSubstr("key \"hidden_size\": must be an integer in [1, 1048576], is the string \"64\""));
  const std::string heads = "{" + sizes + R"(,"hidden_size":64,"num_attention_heads":4,)";
  EXPECT_THAT(error_of_config(heads + R"("num_key_value_heads":3})"),
              HasSubstr("\"num_attention_heads\": 4 is no multiple of \"num_key_value_heads\", which is 3"));
  EXPECT_THAT(error_of_config(heads + R"("rope_parameters":{"rope_theta":-1}})"),
              HasSubstr("key \"rope_parameters.rope_theta\": must be a number"));
  EXPECT_THAT(error_of_config(heads + R"("rope_scaling":{"type":"linear"}})"),
              HasSubstr("key \"rope_scaling.factor\": is missing"));
  EXPECT_THAT(error_of_config(heads + R"("sliding_window":8,"layer_types":["sliding_attention"]})"),
              HasSubstr("key \"layer_types\": must have 2 entries, has 1"));
  EXPECT_THAT(error_of_config(heads + R"("rope_theta":1e4})"), HasSubstr("tensor \"model.embed_tokens.weight\""));

  const auto error_of_tensor = [](const char* type, std::string_view tensor) {
    const auto file =
        neutral_form(folder_of(std::string(R"({"query_pre_attn_scalar":16,"model_type":")") + type + "\"}", {}));
    return file ? file->get(tensor, {4, 4}).error().message : file.error().message;
  };
  EXPECT_THAT(error_of_tensor("llama", "blk.12.attn_q.weight"),
              HasSubstr("some/folder: tensor \"model.layers.12.self_attn.q_proj.weight\": is missing, shape [4, 4]"));
  EXPECT_THAT(error_of_tensor("mixtral", "blk.1.ffn_down_exps.weight"),
              HasSubstr("\"model.layers.1.block_sparse_moe.experts.0.w2.weight\""));
  EXPECT_THAT(error_of_tensor("gemma2", "blk.0.ffn_norm.weight"),
              HasSubstr("\"model.layers.0.pre_feedforward_layernorm.weight\""));
  EXPECT_THAT(error_of_tensor("llama", "blk.0.nothing"), HasSubstr("tensor \"blk.0.nothing\""));
}

TEST(HfNames, WindowsThatAreSwitchedOffAreOff) {
  const auto window = [](std::string_view config) {
    return *neutral_form(folder_of(config, {}))->meta.get_int("qwen2.attention.sliding_window", 0, 1 << 20);
  };
  EXPECT_EQ(window(R"({"model_type":"qwen2","sliding_window":4096})"), 0);
  EXPECT_EQ(window(R"({"model_type":"qwen2","sliding_window":4096,"use_sliding_window":false})"), 0);
  const auto file = neutral_form(folder_of(
      R"({"model_type":"qwen2","sliding_window":64,"use_sliding_window":true,"num_hidden_layers":3,"max_window_layers":2})",
      {}));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file->meta.get_int("qwen2.attention.sliding_window", 0, 100), 64);
  EXPECT_EQ(std::get<std::vector<int64_t>>(*file->meta.find("qwen2.attention.sliding_window_pattern")),
            (std::vector<int64_t>{0, 0, 1}));
}

}  // namespace
}  // namespace quire
