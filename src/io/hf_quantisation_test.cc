// Quantised folders: what becomes a weight, and what is refused, and how that is said.
#include "io/hf_quantisation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "io/model_file.h"
#include "io/test_quantised_folder.h"
#include "quant/f16.h"

namespace quire {
namespace {

using testing::HasSubstr;

// One weight "m" of 8 outputs and 64 inputs in groups of 32.
Tensors gptq_tensors() {
  std::vector<int32_t> groups;
  groups.reserve(64);
  for (int i = 0; i < 64; ++i) groups.push_back(i / 32);
  return {{"m.qweight", {"I32", {8, 8}, std::string(256, 'q')}},
          {"m.qzeros", {"I32", {2, 1}, std::string(8, 'z')}},
          {"m.scales", {"F16", {2, 8}, bytes_of(std::vector<uint16_t>(16, 0x2c00))}},
          {"m.g_idx", {"I32", {64}, bytes_of(groups)}}};
}
Tensors awq_tensors() {
  return {{"m.qweight", {"I32", {64, 1}, std::string(256, 'q')}},
          {"m.qzeros", {"I32", {2, 1}, std::string(8, 'z')}},
          {"m.scales", {"F16", {2, 8}, bytes_of(std::vector<uint16_t>(16, 0x2c00))}}};
}

Tensors packed_tensors() {
  return {{"m.weight_packed", {"I32", {8, 8}, std::string(256, 'q')}},
          {"m.weight_zero_point", {"I32", {1, 2}, std::string(8, 'z')}},
          {"m.weight_scale", {"BF16", {8, 2}, bytes_of(std::vector<uint16_t>(16, 0x3c00))}},
          {"m.weight_shape", {"I64", {2}, bytes_of(std::vector<int64_t>{8, 64})}}};
}

// The configuration of compressed-tensors with these members of its weights, and of its group.
std::string packed_keys(const std::string& weights, const std::string& group = "", const std::string& more = "") {
  return R"("quant_method":"compressed-tensors","format":"pack-quantized","kv_cache_scheme":null,)"
         R"("quantization_status":"compressed","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],)"
         R"("input_activations":null,)" +
         group + R"("weights":{"type":"int","dynamic":false,)" + weights + "}}}" + more;
}

// One weight "m" of 100 outputs and 128 inputs, and a plain one.
Tensors fp8_tensors(const std::string& scale, const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return {{"m.weight", {"F8_E4M3", {100, 128}, std::string(12800, 'w')}},
          {scale, {"F32", shape, bytes_of(std::vector<float>(static_cast<size_t>(n), 0.25F))}},
          {"m.input_scale", {"F32", {}, bytes_of(std::vector<float>(1, 1.0F))}},
          {"norm.weight", {"F32", {2}, std::string(8, 0)}}};
}
std::string float_keys(const std::string& weights) {
  return R"("quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{)"
         R"("input_activations":{"num_bits":8,"type":"float","dynamic":true},"weights":{"type":"float",)" +
         weights + "}}}";
}

constexpr const char* kFp8 = R"("quant_method":"fp8","activation_scheme":"dynamic")";
constexpr const char* kGptq = R"("quant_method":"gptq","bits":4,"group_size":32)";
constexpr const char* kAwq = R"("quant_method":"awq","bits":4,"group_size":32,"version":"gemm","zero_point":true)";

TEST(HfQuantisation, SeveralTensorsAreOneWeight) {
  const std::string gptq = kGptq, awq = kAwq;
  EXPECT_EQ(with_keys(gptq_tensors(), gptq), "gptq 4 bits, zeros less one, 2 groups, q4_z32");
  EXPECT_EQ(with_keys(gptq_tensors(), gptq + R"(,"checkpoint_format":"gptq_v2")"), "gptq 4 bits, 2 groups, q4_z32");
  EXPECT_EQ(with_keys(gptq_tensors(), gptq + R"(,"dynamic":{"-:lm_head":{}},"pack_dtype":"int32","lm_head":false)"),
            "gptq 4 bits, zeros less one, 2 groups, q4_z32");
  EXPECT_EQ(with_keys(awq_tensors(), awq), "awq 4 bits, 2 groups, q4_z32");
  EXPECT_EQ(with_keys(awq_tensors(), awq + R"(,"modules_to_not_convert":["lm_head"])"), "awq 4 bits, 2 groups, q4_z32");
  Tensors without = gptq_tensors();
  without.erase("m.g_idx");
  EXPECT_EQ(with_keys(without, gptq), "gptq 4 bits, zeros less one, 2 groups, q4_z32");
  Tensors shuffled = gptq_tensors();
  std::swap(shuffled["m.g_idx"].bytes[0], shuffled["m.g_idx"].bytes[4 * 40]);
  EXPECT_EQ(with_keys(shuffled, gptq + R"(,"desc_act":true)"),
            "gptq 4 bits, zeros less one, 2 groups, q4_z32, ordered");
}

TEST(HfQuantisation, PackedRowsOfCompressedTensorsAreOneWeight) {
  const std::string weights = R"("num_bits":4,"strategy":"group","group_size":32,)";
  EXPECT_EQ(with_keys(packed_tensors(), packed_keys(weights + R"("symmetric":false)")),
            "rows 4 bits, 2 groups, q4_z32");
  Tensors plain = packed_tensors();
  plain.erase("m.weight_zero_point");
  EXPECT_EQ(with_keys(plain, packed_keys(weights + R"("symmetric":true)")), "rows 4 bits, 2 groups, q4_0");
  Tensors channels = plain;
  channels["m.weight_scale"] = {"F16", {8, 1}, bytes_of(std::vector<uint16_t>(8, 0x2c00))};
  channels["m.weight_packed"] = {"I32", {8, 16}, std::string(512, 'q')};
  EXPECT_EQ(with_keys(channels, packed_keys(R"("num_bits":8,"strategy":"channel","symmetric":true)")),
            "rows 8 bits, 1 groups, q8_0");
}

TEST(HfQuantisation, FloatsUnderScalesAreOneWeight) {
  const std::string fp8 = kFp8, blocks = fp8 + R"(,"fmt":"e4m3","weight_block_size":[32,128])";
  const std::string inverse = "m.weight_scale_inv", scale = "m.weight_scale";
  EXPECT_EQ(with_keys(fp8_tensors(inverse, {4, 1}), blocks), "e4m3, scales of 32 x 128, f8_128");
  EXPECT_EQ(with_keys(fp8_tensors(scale, {4, 4}), fp8 + R"(,"weight_block_size":[32,32])"),
            "e4m3, scales of 32 x 32, f8_32");
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {1}, {1, 1}}) {
    EXPECT_EQ(with_keys(fp8_tensors(scale, shape), fp8), "e4m3, scales of 100 x 128, f8_128");
    EXPECT_EQ(with_keys(fp8_tensors(scale, shape), float_keys(R"("num_bits":8,"strategy":"tensor")")),
              "e4m3, scales of 100 x 128, f8_128");
  }
  EXPECT_EQ(with_keys(fp8_tensors(inverse, {100, 1}), fp8), "e4m3, scales of 1 x 128, f8_128");
  EXPECT_EQ(with_keys(fp8_tensors(scale, {100, 1}), float_keys(R"("num_bits":8,"strategy":"channel")")),
            "e4m3, scales of 1 x 128, f8_128");
  EXPECT_EQ(with_keys(fp8_tensors(scale, {100, 2}), float_keys(R"("num_bits":8,"strategy":"group","group_size":64)")),
            "e4m3, scales of 1 x 64, f8_32");
  EXPECT_EQ(with_keys(fp8_tensors(scale, {2, 1}),
                      float_keys(R"("num_bits":8,"strategy":"block","block_structure":[64,128])")),
            "e4m3, scales of 64 x 128, f8_128");
}

// One weight "m" of 8 outputs and 64 inputs, as signed bytes.
Tensors byte_tensors(const std::vector<int64_t>& shape, const char* type = "BF16") {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  const auto size = static_cast<size_t>(n);
  const std::string scales = type == std::string("BF16") ? bytes_of(std::vector<uint16_t>(size, 0x3c00))
                                                         : bytes_of(std::vector<float>(size, 0.1F));
  return {{"m.weight", {"I8", {8, 64}, std::string(512, 'w')}},
          {"m.weight_scale", {type, shape, scales}},
          {"m.input_scale", {"F32", {1}, bytes_of(std::vector<float>(1, 1.0F))}},
          {"norm.weight", {"F32", {2}, std::string(8, 0)}}};
}
std::string byte_keys(const std::string& weights, const std::string& format = "int-quantized") {
  return R"("quant_method":"compressed-tensors","format":")" + format +
         R"(","config_groups":{"group_0":{"input_activations":{"num_bits":8,"type":"int","dynamic":true},)"
         R"("weights":{"num_bits":8,"type":"int",)" +
         weights + "}}}";
}

TEST(HfQuantisation, SignedBytesAreOneWeight) {
  const std::string channel = R"("strategy":"channel")", tensor = R"("strategy":"tensor")";
  EXPECT_EQ(with_keys(byte_tensors({8, 1}), byte_keys(channel)), "bytes 8 bits, 1 groups, q8_0");
  EXPECT_EQ(with_keys(byte_tensors({8}), byte_keys(channel)), "bytes 8 bits, 1 groups, q8_0");
  EXPECT_EQ(with_keys(byte_tensors({8, 1}, "F32"), byte_keys(channel)), "bytes 8 bits, 1 groups, f32");
  EXPECT_EQ(with_keys(byte_tensors({8, 2}), byte_keys(R"("strategy":"group","group_size":32)")),
            "bytes 8 bits, 2 groups, q8_0");
  EXPECT_EQ(with_keys(byte_tensors({1}), byte_keys(tensor)), "bytes 8 bits, one scale, 1 groups, q8_0");
  EXPECT_EQ(with_keys(byte_tensors({8, 1}), byte_keys(channel, "naive-quantized")), "bytes 8 bits, 1 groups, q8_0");
  Tensors uneven = byte_tensors({8, 1});
  uneven["m.weight_zero_point"] = {"I8", {8, 1}, std::string(8, 'z')};
  EXPECT_EQ(with_keys(uneven, byte_keys(channel + R"(,"symmetric":false)")), "bytes 8 bits, 1 groups, q8_z32");
  const std::string floats = R"("quant_method":"compressed-tensors","format":"naive-quantized","config_groups":{)"
                             R"("a":{"weights":{"num_bits":8,"type":"float","strategy":"tensor"}}})";
  EXPECT_EQ(with_keys(fp8_tensors("m.weight_scale", {1}), floats), "e4m3, scales of 100 x 128, f8_128");
}

TEST(HfQuantisation, RefusesSignedBytesByTensor) {
  const std::string uneven = byte_keys(R"("strategy":"channel","symmetric":false)");
  Tensors tensors = byte_tensors({8, 1});
  EXPECT_EQ(with_keys(tensors, uneven),
            "model.safetensors: tensor \"m.weight\": \"m.weight_zero_point\" is missing, shape [8, 1] wanted");
  tensors["m.weight_zero_point"] = {"I32", {8, 1}, std::string(32, 'z')};
  EXPECT_THAT(with_keys(tensors, uneven),
              HasSubstr("\"m.weight_zero_point\": dtype I32 is not supported (supported: I8)"));
  EXPECT_EQ(with_keys(byte_tensors({8, 2}), byte_keys(R"("strategy":"channel")")),
            "model.safetensors: tensor \"m.weight_scale\": has shape [8, 2], [8, 1] wanted");
  EXPECT_THAT(with_keys(byte_tensors({8, 1}), byte_keys(R"("strategy":"block")")),
              HasSubstr("strategy\": \"block\" is not supported (supported: tensor, channel, group)"));
  Tensors bad = byte_tensors({8, 1});
  bad["m.weight_scale"] = {"F16", {8, 1}, std::string(16, '\x7c')};
  EXPECT_THAT(with_keys(bad, byte_keys(R"("strategy":"channel")")), HasSubstr("row 0, column 0: must be finite"));
}

TEST(HfQuantisation, RefusesFloatsByTensor) {
  const std::string keys = std::string(kFp8) + R"(,"weight_block_size":[32,128])", scale = "m.weight_scale_inv";
  const Tensors good = fp8_tensors(scale, {4, 1});
  const auto error = [&](const std::string& name, const Stored& stored) {
    Tensors tensors = good;
    tensors[name] = stored;
    return with_keys(tensors, keys);
  };
  EXPECT_EQ(error(scale, {"F32", {1, 4}, std::string(16, 0)}),
            "model.safetensors: tensor \"m.weight_scale_inv\": has shape [1, 4], [4, 1] wanted");
  EXPECT_THAT(error(scale, {"I32", {4, 1}, std::string(16, 0)}), HasSubstr("dtype I32 is not supported"));
  EXPECT_EQ(error(scale, {"F32", {4, 1}, bytes_of(std::vector<float>{1, 2, NAN, 4})}),
            "model.safetensors: tensor \"m.weight_scale_inv\": number 2: must be finite, is nan");
  EXPECT_EQ(error("m.weight", {"F8_E4M3", {12800}, std::string(12800, 'w')}),
            "model.safetensors: tensor \"m.weight\": has shape [12800], two dimensions wanted");
  EXPECT_THAT(error("m.weight", {"F8_E5M2", {100, 128}, std::string(12800, 'w')}),
              HasSubstr("tensor \"m.weight\": dtype F8_E5M2 beside \"m.weight_scale_inv\" is not supported"));
  Tensors tensors = good;
  tensors.erase(scale);
  EXPECT_EQ(with_keys(tensors, keys),
            "model.safetensors: tensor \"m.weight\": \"m.weight_scale\" is missing, shape [4, 1] wanted");
}

// One weight "m" of 6 outputs and 64 inputs in four bits, scales in eight.
Tensors table_tensors(bool is_nested) {
  const auto floats = [](size_t n) { return bytes_of(std::vector<float>(n, 0.5F)); };
  std::string state = R"({"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[6,64])";
  if (is_nested) state += R"(,"nested_blocksize":4,"nested_dtype":"float32","nested_offset":0.25)";
  state += "}";
  Tensors out = {{"m.weight", {"U8", {192, 1}, std::string(192, 'w')}},
                 {"m.weight.quant_map", {"F32", {16}, floats(16)}},
                 {"m.weight.absmax", {"F32", {6}, floats(6)}},
                 {"m.weight.quant_state.bitsandbytes__nf4", {"U8", {static_cast<int64_t>(state.size())}, state}}};
  if (!is_nested) return out;
  out["m.weight.absmax"] = {"U8", {6}, std::string(6, 's')};
  out["m.weight.nested_absmax"] = {"F32", {2}, floats(2)};
  out["m.weight.nested_quant_map"] = {"F32", {256}, floats(256)};
  return out;
}
constexpr const char* kFourBits = R"("quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4")";

TEST(HfQuantisation, BitsandbytesWeightsAreOneWeight) {
  using testing::StartsWith;
  EXPECT_THAT(with_keys(table_tensors(false), kFourBits), StartsWith("table of 1056964608 "));
  EXPECT_THAT(with_keys(table_tensors(true), kFourBits), HasSubstr(", blocks of 4, offset 1048576000"));
  const Tensors rows = {{"m.weight", {"I8", {8, 64}, std::string(512, 'w')}},
                        {"m.weight_format", {"U8", {}, std::string(1, 0)}},
                        {"m.SCB", {"F32", {8}, bytes_of(std::vector<float>(8, 0.5F))}}};
  const std::string eight = R"("quant_method":"bitsandbytes","load_in_8bit":true,"load_in_4bit":false)";
  EXPECT_EQ(with_keys(rows, eight), "bytes 8 bits, scales of 127, 1 groups, f32");
  Tensors bad = rows;
  bad["m.weight_format"].bytes[0] = 1;
  EXPECT_EQ(with_keys(bad, eight), "model.safetensors: tensor \"m.weight_format\": must be 0, rows as they are");
  bad = rows;
  bad["m.SCB"] = {"F32", {8}, std::string(32, '\xff')};
  EXPECT_THAT(with_keys(bad, eight), HasSubstr("tensor \"m.SCB\": number 0: must be finite"));
  bad.erase("m.SCB");
  EXPECT_THAT(with_keys(bad, eight), HasSubstr("tensor \"m.weight\": \"m.SCB\" is missing, shape [8] wanted"));
}

TEST(HfQuantisation, RefusesBitsandbytesByKeyAndTensor) {
  const std::string method = R"("quant_method":"bitsandbytes")", state = "m.weight.quant_state.bitsandbytes__nf4";
  EXPECT_THAT(with_keys(table_tensors(false), method), HasSubstr("load_in_4bit\": false without load_in_8bit is not"));
  EXPECT_THAT(with_keys(table_tensors(false), kFourBits + std::string(R"(,"bnb_4bit_quant_storage":"bfloat16")")),
              HasSubstr("bnb_4bit_quant_storage\": \"bfloat16\" is not supported (supported: uint8)"));
  const auto error = [&](const std::string& name, const Stored& stored) {
    Tensors tensors = table_tensors(true);
    tensors[name] = stored;
    return with_keys(tensors, kFourBits);
  };
  const auto said = [&](const std::string& json) {
    return error(state, {"U8", {static_cast<int64_t>(json.size())}, json});
  };
  EXPECT_THAT(said("{"), HasSubstr("bitsandbytes__nf4\": no JSON: "));
  EXPECT_THAT(said("[]"), HasSubstr("bitsandbytes__nf4\": must be a JSON object"));
  EXPECT_THAT(said(R"({"blocksize":0})"), HasSubstr(": key \"blocksize\": must be 1 to 65536, is 0"));
  EXPECT_THAT(said(R"({"blocksize":64,"shape":[6]})"), HasSubstr("shape\": must be two numbers from 1 to 1048576"));
  EXPECT_THAT(said(R"({"blocksize":64,"shape":[6,32]})"),
              HasSubstr("\"m.weight\": has shape [192, 1], [96, 1] wanted"));
  EXPECT_THAT(said(R"({"blocksize":64,"shape":[6,64],"nested_blocksize":4,"nested_offset":"x"})"),
              HasSubstr("nested_offset\": must be a finite number, is \"x\""));
  EXPECT_THAT(error("m.weight.absmax", {"U8", {7}, std::string(7, 's')}), HasSubstr("has shape [7], [6] wanted"));
  EXPECT_THAT(error("m.weight.nested_absmax", {"F32", {2}, std::string(8, '\xff')}),
              HasSubstr("nested_absmax\": number 0: must be finite"));
  EXPECT_THAT(error("m.weight.quant_map", {"F16", {16}, std::string(32, 0)}), HasSubstr("dtype F16 is not supported"));
  Tensors tensors = table_tensors(false);
  tensors.erase(state);
  EXPECT_EQ(with_keys(tensors, kFourBits), "model.safetensors: tensor \"m.weight\": \"" + state + "\" is missing");
}

std::string small_keys(const std::string& format, const std::string& weights) {
  return R"("quant_method":"compressed-tensors","format":")" + format +
         R"(","config_groups":{"group_0":{"weights":{"type":"float",)" + weights + "}}}";
}
Tensors fp4_tensors(const std::string& type, int64_t n_scale_groups) {
  Tensors out = {
      {"m.weight_packed", {"U8", {8, 48}, std::string(384, 'w')}},
      {"m.weight_scale", {type, {8, n_scale_groups}, std::string(static_cast<size_t>(8 * n_scale_groups), 's')}}};
  if (type != "U8") out["m.weight_global_scale"] = {"F32", {1}, bytes_of(std::vector<float>(1, 64.0F))};
  return out;
}

TEST(HfQuantisation, FloatsInSmallGroupsAreOneWeight) {
  const std::string mx4 = small_keys("mxfp4-pack-quantized", R"("num_bits":4,"strategy":"group","group_size":32)"),
                    nv4 =
                        small_keys("nvfp4-pack-quantized", R"("num_bits":4,"strategy":"tensor_group","group_size":16)"),
                    mx8 = small_keys("mxfp8-quantized", R"("num_bits":8,"strategy":"group","group_size":32)");
  EXPECT_EQ(with_keys(fp4_tensors("U8", 3), mx4), "e2m1, exponents");
  EXPECT_EQ(with_keys(fp4_tensors("F8_E4M3", 6), nv4), "e2m1, factor 1065353216, divisor 1115684864");
  Tensors eight = {{"m.weight", {"F8_E4M3", {8, 96}, std::string(768, 'w')}},
                   {"m.weight_scale", {"U8", {8, 3}, std::string(24, 's')}}};
  EXPECT_EQ(with_keys(eight, mx8), "e4m3, exponents of 1 x 32, f8_32");
  eight["m.weight_scale"].bytes[5] = '\xff';
  EXPECT_THAT(with_keys(eight, mx8), HasSubstr("\"m.weight_scale\": number 5: must be finite, is nan"));
  const std::string wide = small_keys("mxfp4-pack-quantized", R"("num_bits":4,"strategy":"group","group_size":64)");
  EXPECT_THAT(with_keys(fp4_tensors("U8", 3), wide), HasSubstr("group_size\": 64 is not supported (supported: 32)"));
  EXPECT_THAT(with_keys(fp4_tensors("U8", 2), mx4), HasSubstr("\"m.weight_scale\": has shape [8, 2], [8, 3] wanted"));
  EXPECT_THAT(with_keys(fp4_tensors("U8", 6), nv4), HasSubstr("dtype U8 is not supported (supported: F8_E4M3)"));
  Tensors bad = fp4_tensors("U8", 3);
  bad["m.weight_scale"].bytes[4] = '\xff';
  EXPECT_THAT(with_keys(bad, mx4), HasSubstr("\"m.weight_scale\": row 1, column 1: must be finite, is nan"));
  bad = fp4_tensors("F8_E4M3", 6);
  bad["m.weight_global_scale"].bytes = bytes_of(std::vector<float>(1, 0.0F));
  EXPECT_THAT(with_keys(bad, nv4), HasSubstr("\"m.weight_global_scale\": must be finite and at least 2^-126, is 0"));
  bad.erase("m.weight_global_scale");
  EXPECT_THAT(with_keys(bad, nv4), HasSubstr("\"m.weight_global_scale\" is missing, shape [1] wanted"));
  bad["m.weight_packed"] = {"U8", {48, 8}, std::string(384, 'w')};
  EXPECT_THAT(with_keys(bad, mx4), HasSubstr("has shape [48, 8], columns by 16, at most 524288, are taken"));
}

TEST(HfQuantisation, ModelOptsFloatsAreOneWeight) {
  const std::string method = R"("quant_method":"modelopt")", nvfp4 = method + R"(,"quant_algo":"NVFP4")";
  Tensors four = {{"m.weight", {"U8", {8, 32}, std::string(256, 'w')}},
                  {"m.weight_scale", {"F8_E4M3", {8, 4}, std::string(32, 's')}},
                  {"m.weight_scale_2", {"F32", {}, bytes_of(std::vector<float>(1, 2.0F))}},
                  {"m.input_scale", {"F32", {}, bytes_of(std::vector<float>(1, 1.0F))}},
                  {"norm.weight", {"F32", {2}, std::string(8, 0)}}};
  EXPECT_EQ(with_keys(four, nvfp4), "e2m1, factor 1073741824, divisor 1065353216");
  EXPECT_EQ(with_keys(four, method + R"(,"quant_algo":"W4A16_NVFP4","group_size":16)"),
            "e2m1, factor 1073741824, divisor 1065353216");
  EXPECT_EQ(opened(four, "{}",
                   R"(hf_quant_config.json{"producer":{"name":"modelopt"},"quantization":{)"
                   R"("quant_algo":"NVFP4","kv_cache_quant_algo":"FP8","exclude_modules":["lm_head"]}})"),
            "e2m1, factor 1073741824, divisor 1065353216");
  Tensors eight = fp8_tensors("m.weight_scale", {});
  EXPECT_THAT(with_keys(eight, method + R"(,"quant_algo":"FP8")"), HasSubstr("e4m3"));
  EXPECT_THAT(with_keys(four, method), HasSubstr("quantization_config.quant_algo\": is missing"));
  EXPECT_THAT(with_keys(four, method + R"(,"quant_algo":"NVFP4_AWQ")"),
              HasSubstr("quant_algo\": \"NVFP4_AWQ\" is not supported (supported: fp8, nvfp4, w4a16_nvfp4)"));
  EXPECT_THAT(with_keys(four, nvfp4 + R"(,"group_size":32)"), HasSubstr("group_size\": 32 is not supported"));
  EXPECT_THAT(opened(four, "{}", R"(hf_quant_config.json{"quantization":7})"),
              HasSubstr("hf_quant_config.json: key \"quantization\": must be an object"));
  four["m.weight_scale_2"].bytes = bytes_of(std::vector<float>(1, -1.0F));
  EXPECT_THAT(with_keys(four, nvfp4), HasSubstr("\"m.weight_scale_2\": must be finite and at least 0, is -1"));
  four.erase("m.weight_scale_2");
  EXPECT_THAT(with_keys(four, nvfp4), HasSubstr("\"m.weight_scale_2\" is missing"));
}

TEST(HfQuantisation, OlderFoldersSayItInAFileOfItsOwn) {
  EXPECT_EQ(opened(gptq_tensors(), "{}", R"(quantize_config.json{"bits":4,"group_size":32,"desc_act":false})"),
            "gptq 4 bits, zeros less one, 2 groups, q4_z32");
  EXPECT_EQ(opened(awq_tensors(), "{}", R"(quant_config.json{"w_bit":4,"q_group_size":32,"version":"GEMM"})"),
            "awq 4 bits, 2 groups, q4_z32");
  EXPECT_EQ(
      opened(gptq_tensors(), R"({"quantization_config":null})", R"(quantize_config.json{"bits":3,"group_size":32})"),
      "quantize_config.json: key \"bits\": 3 is not supported (supported: 4, 8)");
}

TEST(HfQuantisation, RefusesByKey) {
  const std::string method = R"("quant_method":"gptq",)", gptq = std::string(kGptq) + ",",
                    awq = std::string(kAwq) + ",", fp8 = R"("quant_method":"fp8",)";
  const std::pair<std::string, const char*> cases[] = {
      {R"("bits":4)", "quant_method\": is missing"},
      {R"("quant_method":"quark")",
       "quant_method\": \"quark\" is not supported (supported: gptq, awq, compressed-tensors, fp8, bitsandbytes, "
       "mxfp4, modelopt, bitnet)"},
      {R"("quant_method":7)",
       "quant_method\": 7 is not supported (supported: gptq, awq, compressed-tensors, fp8, bitsandbytes, mxfp4, "
       "modelopt, bitnet)"},
      {method + R"("group_size":32)", "bits\": is missing"},
      {method + R"("bits":3,"group_size":32)", "bits\": 3 is not supported (supported: 4, 8)"},
      {method + R"("bits":"4","group_size":32)", "bits\": must be an integer, is \"4\""},
      {method + R"("bits":4)", "group_size\": is missing"},
      {method + R"("bits":4,"group_size":0)", "group_size\": 0 is not supported"},
      {method + R"("bits":4,"group_size":-2)", "group_size\": -2 is not supported"},
      {method + R"("bits":4,"group_size":9999999)", "group_size\": 9999999 is not supported"},
      {gptq + R"("checkpoint_format":"marlin")", "checkpoint_format\": \"marlin\" is not supported"},
      {gptq + R"("pack_dtype":"int64")", "pack_dtype\": \"int64\" is not supported (supported: int32)"},
      {gptq + R"("is_marlin_format":true)", "is_marlin_format\": true is not supported"},
      {gptq + R"("desc_act":1)", "desc_act\": must be a bool, is 1"},
      {gptq + R"("dynamic":{"+:mlp":{"bits":8}})", "dynamic\": \"+:mlp\" is not supported"},
      {awq + R"("modules_to_not_convert":"lm_head")", "modules_to_not_convert\": must be a list of names"},
      {R"("quant_method":"compressed-tensors","format":"marlin-24")",
       "format\": \"marlin-24\" is not supported (supported: pack-quantized, float-quantized, "
       "int-quantized, naive-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp8-quantized)"},
      {R"("quant_method":"compressed-tensors","format":"pack-quantized")",
       "config_groups\": 0 groups is not supported"},
      {packed_keys(R"("num_bits":2,"strategy":"group","group_size":32)"),
       "config_groups.group_0.weights.num_bits\": 2 is not supported (supported: 4, 8)"},
      {packed_keys(R"("num_bits":4,"strategy":"block")"), "strategy\": \"block\" is not supported"},
      {packed_keys(R"("num_bits":4,"strategy":"group")"), "weights.group_size\": is missing"},
      {packed_keys(R"("num_bits":4)", R"("output_activations":{},)"), "output_activations\": one is not supported"},
      {packed_keys(R"("num_bits":4)", "", R"(,"sparsity_config":{"format":"sparse"})"),
       "sparsity_config\": one is not"},
      {fp8 + R"("fmt":"e5m2")", "fmt\": \"e5m2\" is not supported (supported: e4m3, float8_e4m3fn)"},
      {fp8 + R"("activation_scheme":"none")", "activation_scheme\": \"none\" is not supported"},
      {fp8 + R"("weight_block_size":[128])", "weight_block_size\": must be two numbers from 1 to 1048576, is [128]"},
      {fp8 + R"("weight_block_size":[0,128])", "weight_block_size\": must be two numbers"},
      {fp8 + R"("weight_block_size":[128,1.5])", "weight_block_size\": must be two numbers"},
      {float_keys(R"("num_bits":4)"), "weights.num_bits\": 4 is not supported (supported: 8)"},
      {float_keys(R"("num_bits":8,"strategy":"token")"), "strategy\": \"token\" is not supported"},
      {float_keys(R"("num_bits":8,"strategy":"block")"), "weights.block_structure\": is missing"},
      {float_keys(R"("num_bits":8,"symmetric":false)"), "symmetric\": false is not supported"},
      {R"("quant_method":"awq","bits":8,"group_size":32)", "bits\": 8 is not supported (supported: 4)"},
      {R"("quant_method":"awq","bits":4,"group_size":32,"version":"gemv")",
       "\"gemv\" is not supported (supported: gemm)"},
      {R"("quant_method":"awq","bits":4,"group_size":32,"zero_point":false)", "zero_point\": false is not supported"},
  };
  for (const auto& [keys, message] : cases) {
    const std::string error = with_keys(gptq_tensors(), keys);
    EXPECT_THAT(error, HasSubstr(message)) << keys;
    EXPECT_THAT(error, HasSubstr("config.json: key \"quantization_config.")) << keys;
  }
  EXPECT_EQ(opened(gptq_tensors(), R"({"quantization_config":7})"),
            "config.json: key \"quantization_config\": must be an object, is 7");
}

struct BadTensors {
  const char* what;
  std::function<void(Tensors&)> spoil;
  const char* message;
};

const BadTensors kBadTensors[] = {
    {"no zeros", [](Tensors& t) { t.erase("m.qzeros"); },
     "tensor \"m.qweight\": \"m.qzeros\" is missing, shape [2, 1] wanted"},
    {"no scales", [](Tensors& t) { t.erase("m.scales"); }, "\"m.scales\" is missing, shape [2, 8] wanted"},
    {"no groups", [](Tensors& t) { t.erase("m.g_idx"); }, "\"m.g_idx\" is missing, shape [64] wanted"},
    {"numbers of another type", [](Tensors& t) { t["m.qweight"].dtype = "F32"; },
     "tensor \"m.qweight\": dtype F32 is not supported (supported: I32, U32)"},
    {"flat numbers", [](Tensors& t) { t["m.qweight"].shape = {64}; },
     "tensor \"m.qweight\": has shape [64], two dimensions wanted"},
    {"zeros of another shape", [](Tensors& t) { t["m.qzeros"].shape = {1, 2}; },
     "tensor \"m.qzeros\": has shape [1, 2], [2, 1] wanted"},
    {"scales of another shape", [](Tensors& t) { t["m.scales"].shape = {8, 2}; },
     "tensor \"m.scales\": has shape [8, 2], [2, 8] wanted"},
    {"scales of another type", [](Tensors& t) { t["m.scales"].dtype = "I16"; },
     "tensor \"m.scales\": dtype I16 is not supported (supported: F16, BF16, F32)"},
    {"infinite scale", [](Tensors& t) { std::memcpy(t["m.scales"].bytes.data() + 2 * 11, "\x00\x7c", 2); },
     "tensor \"m.scales\": row 1, column 3: must be finite, is inf"},
    {"NaN", [](Tensors& t) { std::memcpy(t["m.scales"].bytes.data(), "\x01\x7c", 2); },
     "tensor \"m.scales\": row 0, column 0: must be finite, is nan"},
    {"group out of range", [](Tensors& t) { t["m.g_idx"].bytes[4 * 5] = 2; },
     "tensor \"m.g_idx\": number 5: must be a group in [0, 1], is 2"},
    {"group below zero", [](Tensors& t) { std::memset(t["m.g_idx"].bytes.data() + 4 * 63, 0xff, 4); },
     "tensor \"m.g_idx\": number 63: must be a group in [0, 1], is -1"},
    {"groups of another number", [](Tensors& t) { t["m.g_idx"] = {"I32", {32}, std::string(128, '\0')}; },
     "tensor \"m.g_idx\": has shape [32], [64] wanted"},
    {"a part alone", [](Tensors& t) { t["n.qzeros"] = t["m.qzeros"]; }, "tensor \"n.qzeros\": byte"},
};

TEST(HfQuantisation, RefusesByTensor) {
  for (const BadTensors& bad : kBadTensors) {
    Tensors tensors = gptq_tensors();
    bad.spoil(tensors);
    const std::string error = with_keys(tensors, std::string(kGptq) + R"(,"desc_act":true)");
    EXPECT_THAT(error, HasSubstr(bad.message)) << bad.what;
    EXPECT_THAT(error, HasSubstr("model.safetensors: ")) << bad.what;
  }
}

TEST(HfQuantisation, RefusesPackedRowsByTensor) {
  const std::string keys = packed_keys(R"("num_bits":4,"strategy":"group","group_size":32,"symmetric":false)");
  const auto error = [&](const std::string& name, const Stored& stored) {
    Tensors tensors = packed_tensors();
    tensors[name] = stored;
    return with_keys(tensors, keys);
  };
  EXPECT_THAT(error("m.weight_shape", {"I64", {2}, bytes_of(std::vector<int64_t>{8, 60})}),
              HasSubstr("tensor \"m.weight_shape\": is [8, 60], [8, 64] wanted"));
  EXPECT_THAT(error("m.weight_zero_point", {"I32", {2, 1}, std::string(8, 'z')}),
              HasSubstr("tensor \"m.weight_zero_point\": has shape [2, 1], [1, 2] wanted"));
  EXPECT_THAT(error("m.weight_scale", {"F16", {8, 2}, std::string(32, '\x7c')}),
              HasSubstr("tensor \"m.weight_scale\": row 0, column 0: must be finite"));
  Tensors tensors = packed_tensors();
  tensors.erase("m.weight_shape");
  EXPECT_THAT(with_keys(tensors, keys), HasSubstr("\"m.weight_shape\" is missing, shape [2] wanted"));
}

// What is left of a quantised weight beside a plain one: taken as it is, its factor would be lost.
TEST(HfQuantisation, PlainWeightsUnderScalesAreRefused) {
  const auto said = [](Tensors tensors, const std::string& numbers, const std::string& keys) {
    tensors.erase(numbers);
    tensors["m.weight"] = {"BF16", {1}, "bf"};
    return with_keys(tensors, keys).substr(std::strlen("model.safetensors: tensor "));
  };
  const std::string fp8 = kFp8;
  EXPECT_EQ(said(fp8_tensors("m.weight_scale_inv", {4, 1}), "", fp8 + R"(,"weight_block_size":[32,128])"),
            "\"m.weight\": dtype BF16 beside \"m.weight_scale_inv\" is not supported (supported: F8_E4M3)");
  EXPECT_THAT(said(fp8_tensors("m.weight_scale", {}), "", fp8), HasSubstr("beside \"m.weight_scale\" is not"));
  EXPECT_THAT(said(byte_tensors({8}), "", byte_keys(R"("strategy":"channel")")), HasSubstr("(supported: I8)"));
  EXPECT_THAT(said(table_tensors(false), "", kFourBits), HasSubstr("beside \"m.weight.absmax\" is not"));
  EXPECT_EQ(said(gptq_tensors(), "m.qweight", kGptq),
            "\"m.g_idx\": \"m.qweight\" is missing, and \"m.weight\" has dtype BF16");
  EXPECT_THAT(said(packed_tensors(), "m.weight_packed", packed_keys(R"("num_bits":4,"group_size":32)")),
              HasSubstr("\"m.weight_packed\" is missing, and"));
  Tensors good = fp8_tensors("m.weight_scale", {});  // what others have beside weights that are not quantised
  good["n.weight"] = good["norm.weight"];
  for (const char* name : {"n.input_scale", "n.output_scale", "n.k_scale", "n.v_scale"}) {
    good[name] = good["m.input_scale"];
  }
  EXPECT_EQ(with_keys(good, fp8 + R"(,"modules_to_not_convert":["n"])"), "e4m3, scales of 100 x 128, f8_128");
}

// Without the configuration nobody knows what the numbers mean.
TEST(HfQuantisation, TensorsAloneAreRefused) {
  EXPECT_THAT(opened(gptq_tensors(), "{}"), HasSubstr("tensor \"m.g_idx\": "));
}

}  // namespace
}  // namespace quire
