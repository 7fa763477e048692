// What folders of hybrids say of their layers is checked by their own keys before anything is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/model_file.h"
#include "model/model.h"

namespace quire {
namespace {

using testing::HasSubstr;
using Kinds = std::vector<std::string>;

// What model_info says of a golden folder with this fact in place of its own.
std::string error_with(const std::string& folder, const std::string& key, MetaValue value) {
  auto file = open_model("build/golden/models/" + folder);
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return "";
  file->meta.values["hf." + key] = std::move(value);
  const auto info = model_info(*file, {find_kv_codec("f32"), find_kv_codec("f32")});
  return info ? "read" : info.error().message;
}

TEST(Hybrids, LightningAttentionIsRefusedByItsOwnKeys) {
  const auto error = [](const std::string& key, MetaValue value) {
    return error_with("minimax", key, std::move(value));
  };
  EXPECT_EQ(error("hidden_act", std::string("silu")), "read");
  EXPECT_THAT(error("layer_types", Kinds{"linear_attention", "conv", "full_attention"}),
              HasSubstr("key \"layer_types\": \"conv\" is not supported; known: full_attention"));
  EXPECT_THAT(error("layer_types", Kinds{"linear_attention"}), HasSubstr("must have 3 entries, has 1"));
  EXPECT_THAT(error("head_dim", int64_t{512}),
              HasSubstr("key \"head_dim\": must be at most 256 in layers that keep a state, is 512"));
  EXPECT_THAT(error("num_attention_heads", int64_t{1} << 40), HasSubstr("\"num_attention_heads\""));
  EXPECT_THAT(error("mlp_alpha_factor", 1e30), HasSubstr("\"mlp_alpha_factor\""));
  EXPECT_THAT(error("num_experts_per_tok", int64_t{5}), HasSubstr("\"num_experts_per_tok\""));
}

TEST(Hybrids, TheAuthorsOwnKeysMeanTheSame) {
  auto file = open_model("build/golden/models/minimax");
  ASSERT_TRUE(file) << file.error().message;
  const auto wanted = neutral_form(*file);
  ASSERT_TRUE(wanted) << wanted.error().message;
  auto& facts = file->meta.values;
  const std::pair<const char*, const char*> names[] = {{"full_attn_alpha_factor", "layernorm_full_attention_alpha"},
                                                       {"full_attn_beta_factor", "layernorm_full_attention_beta"},
                                                       {"linear_attn_alpha_factor", "layernorm_linear_attention_alpha"},
                                                       {"linear_attn_beta_factor", "layernorm_linear_attention_beta"},
                                                       {"mlp_alpha_factor", "layernorm_mlp_alpha"},
                                                       {"mlp_beta_factor", "layernorm_mlp_beta"}};
  for (const auto& [theirs, authors] : names) {
    facts[std::string("hf.") + authors] = facts.at(std::string("hf.") + theirs);
    facts.erase(std::string("hf.") + theirs);
  }
  facts.erase("hf.layer_types");
  facts["hf.attn_type_list"] = std::vector<int64_t>{0, 1, 0};
  facts["hf.model_type"] = std::string("minimax_text_01");
  EXPECT_THAT(neutral_form(*file).error().message, HasSubstr("\"postnorm\""));
  facts["hf.postnorm"] = true;
  facts["hf.rotary_dim"] = int64_t{8};
  const auto found = neutral_form(*file);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found->meta.get_int("minimax.rope.dimension_count", 1, 64), 8);
  for (const auto& [key, value] : wanted->meta.values) {
    ASSERT_NE(found->meta.find(key), nullptr) << key;
    EXPECT_TRUE(*found->meta.find(key) == value) << key;
  }
  facts["hf.attn_type_list"] = std::vector<int64_t>{0, 1};
  EXPECT_THAT(neutral_form(*file).error().message, HasSubstr("must be a list of 3 numbers, has 2"));
}

TEST(Hybrids, SharedBlocksAreRefusedByTheirOwnKeys) {
  const auto error = [](const std::string& key, MetaValue value) {
    return error_with("zamba2", key, std::move(value));
  };
  EXPECT_EQ(error("hidden_act", std::string("gelu")), "read");
  EXPECT_THAT(error("layers_block_type", Kinds{"mamba", "hybrid"}),
              HasSubstr("key \"layers_block_type\": must be a list of 4 kinds of layers, has 2"));
  EXPECT_THAT(error("layers_block_type", Kinds{"mamba", "hybrid", "conv", "mamba"}),
              HasSubstr("\"conv\" is not supported; known: hybrid mamba linear_attention"));
  EXPECT_THAT(error("num_attention_heads", int64_t{7}),
              HasSubstr("must divide twice the hidden_size, which is 64, is 7"));
  EXPECT_THAT(error("sliding_window", int64_t{16}), HasSubstr("\"sliding_window\": must be 0, is 16"));
  EXPECT_THAT(error("num_mem_blocks", int64_t{0}), HasSubstr("\"num_mem_blocks\""));
  EXPECT_THAT(error("mamba_d_state", int64_t{257}), HasSubstr("\"mamba_d_state\""));
  EXPECT_THAT(error("n_mamba_heads", int64_t{5}), HasSubstr("\"n_mamba_heads\": must divide"));
  EXPECT_THAT(error("time_step_min", -1.0), HasSubstr("\"time_step_min\""));
  EXPECT_THAT(error("use_long_context", true), HasSubstr("\"use_long_context\""));
  EXPECT_THAT(error("use_shared_attention_adapter", false),
              HasSubstr("key \"use_shared_attention_adapter\": is false, and tensor"));
}

TEST(Hybrids, BoundedFadesAreRefusedByTheirOwnKeys) {
  const auto error = [](const std::string& key, MetaValue value) {
    return error_with("bailing_hybrid", key, std::move(value));
  };
  EXPECT_EQ(error("kda_safe_gate", true), "read");
  EXPECT_EQ(error("kda_safe_gate", false), "read");
  EXPECT_THAT(error("kda_lower_bound", 1.0), HasSubstr("\"kda_lower_bound\""));
  EXPECT_THAT(error("layer_types", Kinds{"full_attention"}),
              HasSubstr("key \"layer_types\": must be a list of 3 kinds of layers, has 1"));
  EXPECT_THAT(error("layer_types", Kinds{"full_attention", "mamba", "full_attention"}),
              HasSubstr("\"mamba\" is not supported"));
  EXPECT_THAT(error("head_dim", int64_t{300}), HasSubstr("\"head_dim\""));
  EXPECT_THAT(error("short_conv_kernel_size", int64_t{17}), HasSubstr("\"short_conv_kernel_size\""));
  EXPECT_THAT(error("kv_lora_rank", int64_t{600}), HasSubstr("\"kv_lora_rank\""));
  EXPECT_THAT(error("num_expert_group", int64_t{3}), HasSubstr("\"num_expert_group\": must divide the 4 experts"));
}

TEST(Hybrids, ConvolutionsBesideWindowsAreRefusedByTheirOwnKeys) {
  const auto error = [](const std::string& key, MetaValue value) { return error_with("lfm3", key, std::move(value)); };
  EXPECT_EQ(error("sliding_window", int64_t{16}), "read");
  EXPECT_THAT(error("sliding_window", int64_t{0}), HasSubstr("\"sliding_window\""));
  EXPECT_THAT(error("conv_L_cache", int64_t{17}), HasSubstr("\"conv_L_cache\""));
  EXPECT_THAT(error("use_attention_gate", false), HasSubstr("is there, and key \"use_attention_gate\" is false"));
  EXPECT_THAT(error("use_sandwich_norm", false), HasSubstr("is there, and key \"use_sandwich_norm\" is false"));
  EXPECT_THAT(error("layer_types", Kinds{"conv"}), HasSubstr("must be a list of 4 kinds of layers, has 1"));
  EXPECT_THAT(error("layer_types", Kinds{"conv", "mamba", "conv", "conv"}), HasSubstr("\"mamba\" is not supported"));
  EXPECT_THAT(error("rope_parameters.sliding_attention.rope_type", std::string("yarn")),
              HasSubstr("\"yarn\" is not supported"));
}

}  // namespace
}  // namespace quire
