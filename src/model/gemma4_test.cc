// Gains of Gemma 4's experts: in a file, and in one whose reader has taken them for factors of experts in NVFP4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/model_file.h"
#include "model/model.h"

namespace quire {
namespace {

std::string error_of(bool with_gains, const char* experts) {
  auto file = open_model("build/golden/models/gemma4-moe/model.gguf");
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return "";
  if (!with_gains) {
    std::erase_if(file->tensors, [](const HostWeight& w) { return w.name.ends_with("ffn_down_exps.scale"); });
  }
  for (HostWeight& weight : file->tensors) {
    if (weight.name.ends_with("ffn_down_exps.weight")) weight.format = find_weight_format(std::string_view(experts));
  }
  const auto info = model_info(*file, {find_kv_codec("f32"), find_kv_codec("f32")});
  return info ? "" : info.error().message;
}

TEST(Gemma4, GainsMayBeTheExpertsFactors) {
  EXPECT_EQ(error_of(true, "f32"), "");
  EXPECT_EQ(error_of(false, "f4_64"), "");
  EXPECT_THAT(error_of(false, "f32"), testing::HasSubstr("ffn_down_exps.scale"));
}

}  // namespace
}  // namespace quire
