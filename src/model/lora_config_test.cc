#include "model/lora_config.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire {
namespace {

TEST(LoraConfig, PatternsAreNamesOfModules) {
  const auto config = read_lora_config(*Json::parse(
      R"({"peft_type":"LORA","r":8,"lora_alpha":16,"use_rslora":true,
          "rank_pattern":{"^model.layers.0.self_attn.q_proj":2,"layers.1.self_attn.q_proj":3,".*\\.down_proj$":4},
          "alpha_pattern":{"q_proj":9,"k_proj":1.5}})"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rank_of("model.layers.0.self_attn.q_proj"), 2);
  EXPECT_EQ(config->rank_of("x.model.layers.0.self_attn.q_proj"), 8);
  EXPECT_EQ(config->rank_of("model.layers.1.self_attn.q_proj"), 3);
  EXPECT_EQ(config->rank_of("model.layers.11.self_attn.q_proj"), 8);
  EXPECT_EQ(config->rank_of("model.layers.5.mlp.down_proj"), 4);
  EXPECT_EQ(config->rank_of("model.layers.5.mlp.up_proj"), 8);
  EXPECT_DOUBLE_EQ(config->factor_of("model.layers.5.mlp.up_proj"), 16 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(config->factor_of("model.layers.0.self_attn.q_proj"), 9 / std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(config->factor_of("model.layers.0.self_attn.k_proj"), 1.5 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(config->factor_of("model.layers.0.self_attn.xk_proj"), 16 / std::sqrt(8.0));
}

TEST(LoraConfig, ParametersOfExpertsAreWrappedInOrder) {
  const auto read = [](const std::string& names) {
    return read_lora_config(
        *Json::parse(R"({"peft_type":"LORA","r":8,"lora_alpha":16,"target_parameters":)" + names + "}"));
  };
  const std::string module = "model.layers.0.mlp.experts";
  const auto both = read(R"(["mlp.experts.down_proj","mlp.experts.gate_up_proj"])");
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->parameter_of(module), module + ".down_proj");
  EXPECT_EQ(both->parameter_of(module + ".base_layer"), module + ".gate_up_proj");
  EXPECT_EQ(both->parameter_of(module + ".base_layer.base_layer"), "");
  EXPECT_EQ(both->parameter_of("model.layers.0.mlp.xexperts"), "");
  const auto one = read(R"(["experts.gate_up_proj"])");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->parameter_of(module), module + ".gate_up_proj");
  EXPECT_EQ(one->parameter_of(module + ".base_layer"), "");
  EXPECT_FALSE(read("7"));
  EXPECT_FALSE(read("[7]"));
}

}  // namespace
}  // namespace quire
