// Ternary weights in bytes: what becomes a weight, and what is refused, and how that is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/test_quantised_folder.h"

namespace quire {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const std::string kFactor = R"("quant_method":"bitnet","linear_class":"autobitlinear","quantization_mode":"offline")";
const std::string kDivisor = R"("quant_method":"bitnet","modules_to_not_convert":["lm_head"])";

Tensors good(float scale) {
  return {{"m.weight", {"U8", {8, 256}, std::string(2048, 'w')}},
          {"m.weight_scale", {"F32", {1}, bytes_of(std::vector<float>{scale})}}};
}

TEST(HfBitNet, BytesAndAScaleAreOneWeight) {
  EXPECT_EQ(with_keys(good(0.5F), kFactor), "ternary, scale 1056964608, tq2_0");
  EXPECT_EQ(with_keys(good(2), kDivisor), "ternary, scale 1056964608, tq2_0");
  EXPECT_EQ(with_keys(good(3), kDivisor), "ternary, scale 1051372203, f4_64");
  Tensors plain = good(1);
  plain["m.weight_scale"].shape = {};
  EXPECT_EQ(with_keys(plain, kFactor), "ternary, scale 1065353216, tq2_0");
}

TEST(HfBitNet, TensorsThatDoNotFitAreRefused) {
  Tensors bad = good(1);
  bad["m.weight_scale"] = {"F32", {2}, bytes_of(std::vector<float>{1, 1})};
  EXPECT_THAT(with_keys(bad, kFactor), HasSubstr("\"m.weight_scale\": has shape [2], [1] wanted"));
  bad["m.weight_scale"] = {"I32", {1}, "four"};
  EXPECT_THAT(with_keys(bad, kFactor), HasSubstr("dtype I32 is not supported (supported: F16, BF16, F32)"));
  bad.erase("m.weight_scale");
  EXPECT_THAT(with_keys(bad, kFactor), HasSubstr("\"m.weight_scale\" is missing, shape [1] wanted"));
  bad = good(1);
  bad["m.weight"].shape = {2048};
  EXPECT_THAT(with_keys(bad, kFactor), HasSubstr("has shape [2048], two dimensions wanted"));
}

TEST(HfBitNet, ScalesThatAreNoneAreRefusedByTheirValue) {
  const std::string factor = "\"m.weight_scale\": must be finite, is ",
                    divisor = "\"m.weight_scale\": must be finite, and so must 1 divided by it, is ";
  EXPECT_THAT(with_keys(good(INFINITY), kFactor), EndsWith(factor + "inf"));
  EXPECT_THAT(with_keys(good(-NAN), kFactor), HasSubstr(factor));
  EXPECT_EQ(with_keys(good(0), kFactor), "ternary, scale 0, tq2_0");
  EXPECT_THAT(with_keys(good(INFINITY), kDivisor), EndsWith(divisor + "inf"));
  EXPECT_THAT(with_keys(good(-INFINITY), kDivisor), EndsWith(divisor + "-inf"));
  EXPECT_THAT(with_keys(good(NAN), kDivisor), EndsWith(divisor + "nan"));
  EXPECT_THAT(with_keys(good(0), kDivisor), EndsWith(divisor + "0"));
  EXPECT_THAT(with_keys(good(1e-39F), kDivisor), EndsWith(divisor + "1e-39"));  // a denormal: 1e39 is no F32
  // Another one, whose inverse, 2^127, is.
  EXPECT_EQ(with_keys(good(0x1p-127F), kDivisor), "ternary, scale 2130706432, f4_64");
}

// Their factor would be lost: the numbers are plain ones to everything that reads them.
TEST(HfBitNet, NumbersInOtherTypesAreRefused) {
  Tensors floats = good(0.5F);
  floats["m.weight"] = {"BF16", {4, 8}, bytes_of(std::vector<uint16_t>(32, 0x3f80))};
  for (const std::string& keys : {kFactor, kDivisor}) {
    EXPECT_EQ(with_keys(floats, keys),
              "model.safetensors: tensor \"m.weight\": dtype BF16 beside \"m.weight_scale\" is not supported "
              "(supported: U8)");
  }
  floats["m.weight"] = {"I8", {4, 8}, std::string(32, '\1')};
  EXPECT_THAT(with_keys(floats, kFactor), HasSubstr("dtype I8 beside \"m.weight_scale\" is not supported"));
  floats["m.weight"] = {"F32", {2}, std::string(8, 0)};
  floats.erase("m.weight_scale");  // of a module that is not converted
  floats["n.weight"] = good(1)["m.weight"];
  floats["n.weight_scale"] = good(1)["m.weight_scale"];
  EXPECT_EQ(with_keys(floats, kFactor), "ternary, scale 1065353216, tq2_0");
}

TEST(HfBitNet, OtherModulesAreRefusedByKey) {
  const auto said = [](const std::string& more) { return with_keys(good(1), R"("quant_method":"bitnet",)" + more); };
  EXPECT_THAT(said(R"("linear_class":"other")"), HasSubstr("linear_class\": \"other\" is not supported"));
  EXPECT_THAT(said(R"("quantization_mode":"online")"),
              HasSubstr("quantization_mode\": \"online\" is not supported (supported: offline)"));
  EXPECT_THAT(said(R"("use_rms_norm":true)"), HasSubstr("use_rms_norm\": true is not supported (supported: false)"));
  EXPECT_THAT(said(R"("modules_to_not_convert":7)"), HasSubstr("modules_to_not_convert\": must be a list of names"));
}

}  // namespace
}  // namespace quire
