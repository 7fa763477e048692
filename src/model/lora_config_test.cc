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
    return read_lora_config(*Json::parse(
        R"({"peft_type":"LORA","r":8,"lora_alpha":16,"peft_version":"0.21.2","target_parameters":)" + names + "}"));
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
  const auto ups = read(R"(["mixer.experts.down_proj","mixer.experts.up_proj","mixer.gate.weight"])");
  ASSERT_TRUE(ups) << ups.error().message;
  EXPECT_EQ(ups->parameter_of("model.layers.1.mixer.experts.base_layer"), "model.layers.1.mixer.experts.up_proj");
  EXPECT_EQ(ups->parameter_of("model.layers.1.mixer.gate"), "model.layers.1.mixer.gate.weight");
  EXPECT_EQ(ups->parameter_of("model.layers.1.mixer.gates"), "");
  EXPECT_FALSE(read("7"));
  EXPECT_FALSE(read("[7]"));
}

TEST(LoraConfig, AnInvocationIsAListOfTokens) {
  const auto read = [](const std::string& more) {
    return read_lora_config(
        *Json::parse(R"({"peft_type":"LORA","r":8,"lora_alpha":16,"peft_version":"0.21.2",)" + more + "}"));
  };
  const auto refusal = [&](const std::string& more) {
    const auto config = read(R"("alora_invocation_tokens":)" + more);
    return config ? std::string() : config.error().message;
  };
  const auto config = read(R"("alora_invocation_tokens":[7,0,7])");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->invocation, (std::vector<int64_t>{7, 0, 7}));
  for (const char* nothing : {"null", "[]"}) EXPECT_EQ(refusal(nothing), "");
  const std::string key = "key \"alora_invocation_tokens\": ";
  EXPECT_EQ(refusal(R"([1,"2"])"), key + "must be a list of tokens, found \"2\"");
  EXPECT_EQ(refusal("[1.5]"), key + "must be a list of tokens, found 1.5");
  EXPECT_EQ(refusal("4"), key + "must be a list of tokens, found 4");
  EXPECT_EQ(refusal(R"([1],"use_dora":true)"), key + "is not supported beside use_dora");
  EXPECT_EQ(refusal(R"([1],"target_parameters":["experts.down_proj"])"),
            key + "is not supported beside target_parameters");
}

// Before 0.19.1 PEFT had A and B of experts' parameters the other way round.
TEST(LoraConfig, ParametersOfExpertsNeedAVersionThatIsKnown) {
  const auto refusal = [](const std::string& more, const std::string& names = R"(["mlp.experts.down_proj"])") {
    const auto read = read_lora_config(
        *Json::parse(R"({"peft_type":"LORA","r":8,"lora_alpha":16,"target_parameters":)" + names + more + "}"));
    return read ? std::string() : read.error().message;
  };
  const std::string wanted =
      "key \"peft_version\": must be 0.19.1 or later where target_parameters names experts, found ";
  EXPECT_EQ(refusal(""), wanted + "nothing");
  EXPECT_EQ(refusal(R"(,"peft_version":0.21)"), wanted + "0.21");
  for (const char* version :
       {"0.19.0", "0.19", "0.18.2.dev0", "0.9.7", "0", "", "main", "-1.2.3", "99999999999.0.0", "0.99999999999"}) {
    const std::string key = std::string(R"(,"peft_version":")") + version + "\"";
    EXPECT_EQ(refusal(key), wanted + "\"" + version + "\"");
    EXPECT_EQ(refusal(key, "[]"), "") << version;
    EXPECT_EQ(refusal(key, R"(["self_attn.q_proj.weight"])"), "") << version;
  }
  for (const char* version : {"0.19.1", "0.19.1.dev0", "0.19.1rc1", "0.19.10", "0.20", "0.21.2", "0.21.2.dev0@unknown",
                              "1.0", "1", "10.2.3.4"}) {
    EXPECT_EQ(refusal(std::string(R"(,"peft_version":")") + version + "\""), "") << version;
  }
}

}  // namespace
}  // namespace quire
