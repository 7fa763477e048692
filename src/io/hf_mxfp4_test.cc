// Stacked experts in MXFP4: what becomes a weight, and what is refused, and how that is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/test_quantised_folder.h"

namespace quire {
namespace {

using testing::HasSubstr;

TEST(HfMxfp4, BlocksAndScalesAreOneWeight) {
  const std::string keys = R"("quant_method":"mxfp4","modules_to_not_convert":["lm_head"])";
  const Tensors good = {{"m_blocks", {"U8", {2, 8, 3, 16}, std::string(768, 'w')}},
                        {"m_scales", {"U8", {2, 8, 3}, std::string(48, 's')}}};
  EXPECT_EQ(with_keys(good, keys), "e2m1, exponents");
  Tensors bad = good;
  bad["m_scales"].bytes[5] = '\xff';
  EXPECT_THAT(with_keys(bad, keys), HasSubstr("\"m_scales\": number 5: must be finite, is 255"));
  bad["m_scales"].shape = {2, 24};
  EXPECT_THAT(with_keys(bad, keys), HasSubstr("\"m_scales\": has shape [2, 24], [2, 8, 3] wanted"));
  bad.erase("m_scales");
  EXPECT_THAT(with_keys(bad, keys), HasSubstr("\"m_scales\" is missing, shape [2, 8, 3] wanted"));
  Tensors plain = good;
  plain["m"] = {"BF16", {1}, "bf"};
  plain.erase("m_blocks");
  EXPECT_EQ(with_keys(plain, keys),
            "model.safetensors: tensor \"m_scales\": \"m_blocks\" is missing, and \"m\" has dtype BF16");
  bad["m_blocks"].shape = {16, 3, 16};
  EXPECT_THAT(with_keys(bad, keys), HasSubstr("has shape [16, 3, 16], four dimensions, the last of 16, wanted"));
  bad["m_blocks"] = {"I8", {2, 8, 3, 16}, std::string(768, 'w')};
  EXPECT_THAT(with_keys(bad, keys), HasSubstr("dtype I8 is not supported (supported: U8)"));
  bad["m_blocks"] = {"U8", {1, 1, 32769, 16}, std::string(524304, 'w')};
  EXPECT_THAT(with_keys(bad, keys), HasSubstr("at most 1048576 inputs are taken"));
}

TEST(HfMxfp4, ModulesThatAreLeftOutAreAListOfNames) {
  EXPECT_EQ(with_keys({}, R"("quant_method":"mxfp4","modules_to_not_convert":7)"),
            "config.json: key \"quantization_config.modules_to_not_convert\": must be a list of names");
}

}  // namespace
}  // namespace quire
