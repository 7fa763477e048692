#include "quant/mixes.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

std::string_view format(const char* mix, const char* tensor, bool tied = false) {
  return mix_format(*find_mix(mix), tensor, tied).name;
}

TEST(Mixes, WhatCountsMoreIsStoredBetter) {
  EXPECT_EQ(format("q4_k_m", "blk.3.ffn_up.weight"), "q4_k");
  EXPECT_EQ(format("q4_k_m", "blk.3.attn_q.weight"), "q4_k");
  EXPECT_EQ(format("q4_k_m", "blk.3.attn_v.weight"), "q6_k");
  EXPECT_EQ(format("q4_k_m", "blk.3.attn_output.weight"), "q6_k");
  EXPECT_EQ(format("q4_k_m", "blk.3.attn_qkv.weight"), "q6_k");
  EXPECT_EQ(format("q4_k_m", "blk.3.ffn_down.weight"), "q4_k");
  EXPECT_EQ(format("q3_k_l", "blk.3.ffn_down.weight"), "q4_k");
  EXPECT_EQ(format("q3_k_l", "blk.3.ffn_down_exps.weight"), "q4_k");
  EXPECT_EQ(format("q5_k_m", "blk.0.attn_v.weight"), "q8_0");
}

TEST(Mixes, TheHeadIsTheEmbeddingWhereThatMakesTheLogits) {
  EXPECT_EQ(format("q4_k_s", "output.weight"), "q6_k");
  EXPECT_EQ(format("q4_k_s", "token_embd.weight"), "q4_k");
  EXPECT_EQ(format("q4_k_s", "token_embd.weight", true), "q6_k");
}

TEST(Mixes, EveryFormatIsOneOfGguf) {
  EXPECT_EQ(find_mix("q9_k_m"), nullptr);
  for (const Mix& mix : mixes()) {
    EXPECT_EQ(find_mix(mix.name), &mix);
    EXPECT_EQ(find_weight_format(mix.name), nullptr) << "a name is a format's or a mix's";
    for (const char* tensor : {"output.weight", "blk.0.attn_v.weight", "blk.0.attn_k.weight",
                               "blk.0.attn_output.weight", "blk.0.ffn_down.weight", "blk.x"})
      EXPECT_TRUE(mix_format(mix, tensor, false).is_in_gguf()) << mix.name << " " << tensor;
  }
}

}  // namespace
}  // namespace quire
