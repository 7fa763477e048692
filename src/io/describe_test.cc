#include "io/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/gguf_test_file.h"

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
  f.tensor("a", {256, 4}, 17, 0).tensor("b", {8}, 0, 352).tensor("c", {32, 2}, 8, 384);
  return f.pad(32).fill(336, 0).pad(32).fill(32, 0).fill(68, 0);
}

TEST(Describe, SaysWhatTheFileHolds) {
  const TempFile file(model_file(3).text());
  const auto json = describe_model(file.path());
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json->find("path"), Json(file.path()));
  EXPECT_EQ(*json->find("container"), Json("GGUF v3"));
  EXPECT_EQ(*json->find("arch"), Json("llama"));
  EXPECT_EQ(*json->find("n_params"), Json(1024 + 8 + 64));
  EXPECT_EQ(json->find("weights")->dump(),
            R"({"n_tensors":3,"bytes":396,"types":[)"
            R"({"type":"iq2_xs","supported":false,"n_tensors":1,"n_params":1024,"bytes":296},)"
            R"({"type":"q8_0","supported":true,"n_tensors":1,"n_params":64,"bytes":68},)"
            R"({"type":"f32","supported":true,"n_tensors":1,"n_params":8,"bytes":32}]})");
  EXPECT_EQ(json->find("hyper")->dump(), R"({"block_count":2,"factors":{"length":3}})");
  EXPECT_EQ(json->find("tokenizer")->dump(),
            R"({"model":"llama","n_tokens":4,"n_merges":0,"kinds":{"normal":4},"bos":{"id":1,"text":"<s>"},)"
            R"("eos":{"id":3,"text":"a"},"unk":{"id":0,"text":"<unk>"},"add_bos":true,"add_eos":false,)"
            R"("add_space_prefix":true,"chat_template_bytes":0})");
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
  EXPECT_THAT(text, HasSubstr("weights as stored                 396 bytes (0.0 MiB)\n"));
  EXPECT_THAT(text, HasSubstr("  iq2_xs (not supported)          1 tensors, 1024 parameters, 296 bytes (0.0 MiB)\n"));
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
