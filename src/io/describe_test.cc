#include "io/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/gguf_test_file.h"
#include "io/test_folder.h"

namespace quire {
namespace {

using testing::HasSubstr;
using testing::Not;

GgufBytes model_file(uint32_t eos) {
  GgufBytes f;
  f.head(3, 3, 7).fact("general.architecture", "llama").fact("general.name", "a \"tiny\"\x1b[31m model");
  f.key("llama.block_count", gt_u32).put(uint32_t{2}).array<float>("llama.factors", gt_f32, {1, 2, 3});
  f.fact("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
  f.key("tokenizer.ggml.eos_token_id", gt_u32).put(eos);
  f.tensor("a", {256, 1}, 15, 0).tensor("b", {8}, 0, 352).tensor("c", {32, 2}, 8, 384);
  return f.pad(32).fill(336, 0).pad(32).fill(32, 0).fill(68, 0);
}

TEST(Describe, SaysWhatTheFileHolds) {
  const TempFile file(model_file(3).text());
  const auto json = describe_model(file.path());
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json->find("path"), Json(file.path()));
  EXPECT_EQ(*json->find("container"), Json("GGUF v3"));
  EXPECT_EQ(*json->find("arch"), Json("llama"));
  EXPECT_EQ(*json->find("n_params"), Json(256 + 8 + 64));
  EXPECT_EQ(json->find("weights")->dump(),
            R"({"n_tensors":3,"bytes":392,"types":[)"
            R"({"type":"q8_k","supported":false,"n_tensors":1,"n_params":256,"bytes":292},)"
            R"({"type":"q8_0","supported":true,"n_tensors":1,"n_params":64,"bytes":68},)"
            R"({"type":"f32","supported":true,"n_tensors":1,"n_params":8,"bytes":32}]})");
  EXPECT_EQ(json->find("hyper")->dump(), R"({"block_count":2,"factors":{"length":3}})");
  EXPECT_EQ(json->find("tokenizer")->dump(),
            R"({"model":"llama","n_tokens":4,"n_merges":0,"kinds":{"normal":4},"bos":{"id":1,"text":"<s>"},)"
            R"("eos":{"id":3,"text":"a"},"unk":{"id":0,"text":"<unk>"},"add_bos":true,"add_eos":false,)"
            R"("add_space_prefix":true,"chat_template_bytes":0})");
}

// A folder of one weight of 8 outputs and 64 inputs, four bits each: a part's name, type, shape and bytes.
struct Part {
  const char *name, *type, *shape;
  size_t bytes;
};
int64_t n_params_of(const std::string& how, const std::vector<Part>& parts) {
  std::string header;
  size_t end = 0;
  for (const Part& part : parts) {
    header += (header.empty() ? "{\"" : ",\"") + std::string(part.name) + R"(":{"dtype":")" + part.type +
              R"(","shape":)" + part.shape + R"(,"data_offsets":[)" + std::to_string(end);
    end += part.bytes;
    header += "," + std::to_string(end) + "]}";
  }
  GgufBytes file;
  file.str(header + "}").fill(end, 0);
  const TempFolder folder;
  folder.write("config.json", R"({"model_type":"llama","quantization_config":{)" + how + "}}");
  folder.write("model.safetensors", file.text());
  const auto json = describe_model(folder.path());
  EXPECT_TRUE(json) << json.error().message;
  return json ? *json->find("n_params")->as_int() : -1;
}

TEST(Describe, NumbersOfAQuantisedFolderAreItsParameters) {
  EXPECT_EQ(n_params_of(R"("quant_method":"gptq","bits":4,"group_size":32)", {{"m.g_idx", "I32", "[64]", 256},
                                                                              {"m.qweight", "I32", "[8,8]", 256},
                                                                              {"m.qzeros", "I32", "[2,1]", 8},
                                                                              {"m.scales", "F16", "[2,8]", 32},
                                                                              {"n.weight", "F16", "[5]", 10}}),
            8 * 64 + 5);
  EXPECT_EQ(n_params_of(R"("quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{)"
                        R"("weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}}})",
                        {{"m.weight_packed", "I32", "[8,8]", 256},
                         {"m.weight_scale", "BF16", "[8,2]", 32},
                         {"m.weight_shape", "I64", "[2]", 16},
                         {"n.weight", "F16", "[5]", 10}}),
            8 * 64 + 5);
}

TEST(Describe, ABrokenTokenizerIsALineOfTheAnswer) {
  const TempFile file(model_file(4).text());
  const auto json = describe_model(file.path());
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_THAT(json->find("tokenizer")->dump(), HasSubstr("token 4 is not among the 4 tokens"));
  EXPECT_NE(json->find("weights"), nullptr);
}

TEST(Describe, TextHasNoControlCharacters) {
  const TempFile file(model_file(3).text());
  const auto json = describe_model(file.path());
  ASSERT_TRUE(json);
  const std::string text = describe_text(*json);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("arch                              \"llama\"\n"));
  EXPECT_THAT(text, HasSubstr("weights as stored                 392 bytes (0.0 MiB)\n"));
  EXPECT_THAT(text, HasSubstr("  q8_k (not supported)            1 tensors, 256 parameters, 292 bytes (0.0 MiB)\n"));
  EXPECT_THAT(text, HasSubstr("  block_count                     2\n"));
  EXPECT_THAT(text, HasSubstr("  eos                             id 3, text \"a\"\n"));
}

TEST(Describe, ErrorsNameTheFile) {
  const TempFile file("no model");
  const auto json = describe_model(file.path());
  ASSERT_FALSE(json);
  EXPECT_THAT(json.error().message, HasSubstr(file.path() + ": byte 0: the magic"));
}

TEST(Describe, DescribesARealFileOfKTypes) {
  QR_SHARED_OR_SKIP(path, "data/models/quant-slice/slice.gguf");
  const auto json = describe_model(path);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json->find("n_params"), Json(5120 + 2 * 5120 * 64));
  EXPECT_EQ(*json->find("weights")->find("bytes"), Json(20480 + 184320 + 268800));
  EXPECT_EQ(*json->find("hyper")->find("block_count"), Json(40));
  EXPECT_EQ(*json->find("tokenizer")->find("n_tokens"), Json(2048));
}

}  // namespace
}  // namespace quire
