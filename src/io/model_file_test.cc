#include "io/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/gguf_test_file.h"
#include "quant/f16.h"

namespace quire {
namespace {

using testing::HasSubstr;

struct RealModel {
  const char* path;
  size_t n_tensors, n_tokens;
  const char* embedding_type;
};

class RealModels : public testing::TestWithParam<RealModel> {};

TEST_P(RealModels, OpenWithEveryTensorInsideTheFile) {
  QR_SHARED_OR_SKIP(path, GetParam().path);
  const auto model = open_model(path);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.size(), GetParam().n_tensors);
  EXPECT_EQ(model->container, "GGUF v3");
  EXPECT_EQ(model->file_bytes, static_cast<int64_t>(std::filesystem::file_size(path)));
  ASSERT_TRUE(model->has_tokenizer);
  EXPECT_EQ(model->tokenizer.model, "llama");
  EXPECT_EQ(model->tokenizer.tokens.size(), GetParam().n_tokens);
  EXPECT_TRUE(model->tokenizer.add_bos);
  const auto n_embd = model->meta.get_int("llama.embedding_length", 1, 65536);
  ASSERT_TRUE(n_embd);
  const auto embedding = model->get("token_embd.weight", {static_cast<int64_t>(GetParam().n_tokens), *n_embd});
  ASSERT_TRUE(embedding) << embedding.error().message;
  EXPECT_EQ((*embedding)->format->name, GetParam().embedding_type);
  for (const HostWeight& weight : model->tensors) {
    EXPECT_EQ(static_cast<int64_t>(weight.data.size()), weight.n_rows() * weight.format->row_bytes(weight.n_cols()));
    float value[64];
    weight.format->decode(weight.data.data(), value);
    EXPECT_TRUE(std::isfinite(value[0])) << weight.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files,
    RealModels,
    testing::Values(RealModel{"data/models/stories260K/stories260K.gguf", 48, 512, "f32"},
                    RealModel{"data/models/stories260K/stories260K-f16.gguf", 47, 512, "f16"},
                    RealModel{"data/models/stories260K/stories260K-bf16.gguf", 47, 512, "bf16"},
                    RealModel{"data/models/babyllama-105/babyllama-105-f32.gguf", 47, 105, "f32"},
                    RealModel{"data/models/babyllama-105/babyllama-105-q8_0.gguf", 47, 105, "q8_0"},
                    RealModel{"data/models/poem-zh-2048/poem-zh-2048-q8_0.gguf", 47, 2048, "q8_0"},
                    RealModel{"data/models/llama-2-tiny-random/llama-2-tiny-random.gguf", 12, 32000, "f16"}));

TEST(OpenModel, ValuesAgreeWithThePrecisionTheyAreStoredIn) {
  QR_SHARED_OR_SKIP(path, "data/models/stories260K/stories260K.gguf");
  const auto exact = open_model(path);
  const auto half = open_model(shared_path("data/models/stories260K/stories260K-f16.gguf"));
  ASSERT_TRUE(exact && half);
  const HostWeight* a = exact->find("blk.2.ffn_down.weight");
  const HostWeight* b = half->find("blk.2.ffn_down.weight");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  ASSERT_EQ(a->shape, (std::vector<int64_t>{64, 172}));
  ASSERT_EQ(a->shape, b->shape);
  for (int64_t i = 0; i < 64 * 172; ++i) {
    float x = 0;
    float y = 0;
    a->format->decode(a->data.data() + i * a->format->bytes, &x);
    b->format->decode(b->data.data() + i * b->format->bytes, &y);
    ASSERT_EQ(y, f16_to_f32(f32_to_f16(x))) << i;
  }
}

// One f32 tensor "w" [3, 4] holding 0 … 11.
GgufBytes counting_file() {
  GgufBytes f;
  f.head(3, 1, 1).fact("general.architecture", "llama").tensor("w", {4, 3}, 0, 0).pad(32);
  for (int i = 0; i < 12; ++i) f.put(static_cast<float>(i));
  return f;
}

TEST(OpenModel, LooksUpTensorsByNameAndShape) {
  const TempFile file(counting_file().text());
  const auto model = open_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->has_tokenizer);
  const auto w = model->get("w", {3, 4});
  ASSERT_TRUE(w) << w.error().message;
  EXPECT_EQ(load_as<float>((*w)->data.data() + 4 * 11), 11.0F);
  EXPECT_EQ(model->find("v"), nullptr);
  const auto missing = model->get("v", {3, 4});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_EQ(missing.error().message, file.path() + ": tensor \"v\": is missing, shape [3, 4] wanted");
  const auto turned = model->get("w", {4, 3});
  ASSERT_FALSE(turned);
  EXPECT_EQ(turned.error().code, Code::corrupt);
  EXPECT_EQ(turned.error().message, file.path() + ": tensor \"w\": has shape [3, 4], [4, 3] wanted");
}

TEST(OpenModel, TensorsOutliveTheModelFileThatFoundThem) {
  const TempFile file(counting_file().text());
  std::vector<std::shared_ptr<const MappedFile>> maps;
  std::vector<HostWeight> tensors;
  {
    auto model = open_model(file.path());
    ASSERT_TRUE(model);
    maps = model->maps;
    tensors = std::move(model->tensors);
  }
  EXPECT_EQ(load_as<float>(tensors[0].data.data() + 4 * 5), 5.0F);
}

TEST(OpenModel, TruncationAfterOpenReadsAsZerosAndIsReported) {
  GgufBytes f;
  f.head(3, 1, 0).tensor("w", {1024, 16}, 0, 0).pad(32).fill(65536, 1);
  const TempFile file(f.text());
  const auto model = open_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(model->check_unchanged());
  ASSERT_EQ(truncate(file.path().c_str(), 8192), 0);
  EXPECT_EQ(load_as<float>(model->tensors[0].data.data() + 60000), 0.0F);
  const Status status = model->check_unchanged();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::corrupt);
}

TEST(OpenModel, NamesATensorTypeThatIsNotSupported) {
  GgufBytes f;
  f.head(3, 1, 0).tensor("blk.0.attn_q.weight", {4, 2}, 28, 0).pad(32).fill(64, 0);
  const TempFile file(f.text());
  const auto model = open_model(file.path());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::unsupported);
  EXPECT_THAT(model.error().message,
              HasSubstr("tensor \"blk.0.attn_q.weight\": byte 96: tensor type f64 is not supported"));
  EXPECT_TRUE(open_model_metadata(file.path()));
}

// One part of a model in several files: split.* and, in the first, the architecture; one tensor.
std::string part_file(int no, int count, int n_tensors, const std::string& tensor, const std::string& arch = {}) {
  GgufBytes f;
  f.head(3, 1, arch.empty() ? 3 : 4);
  if (!arch.empty()) f.fact("general.architecture", arch);
  f.key("split.no", gt_u16).put(static_cast<uint16_t>(no)).key("split.count", gt_u16).put(static_cast<uint16_t>(count));
  f.key("split.tensors.count", gt_i32).put(static_cast<int32_t>(n_tensors));
  f.tensor(tensor, {8}, 0, 0).pad(32).fill(32, 'x');
  return f.text();
}

class SplitModel : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire_split_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    write(1, part_file(0, 3, 3, "c", "llama"));
    write(2, part_file(1, 3, 3, "a"));
    write(3, part_file(2, 3, 3, "b"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(int number) const { return folder_ + "/m-0000" + std::to_string(number) + "-of-00003.gguf"; }
  void write(int number, const std::string& content) const {
    std::ofstream(path(number), std::ios::binary | std::ios::trunc) << content;
  }
  std::string error() const {
    const auto model = open_model(path(1));
    return model ? "opened" : model.error().message;
  }
  std::string folder_;
};

TEST_F(SplitModel, OpensByAnyPart) {
  for (const int number : {1, 2, 3}) {
    const auto model = open_model(path(number));
    ASSERT_TRUE(model) << model.error().message;
    ASSERT_EQ(model->tensors.size(), 3U);
    EXPECT_EQ(model->tensors[0].name, "a");
    EXPECT_EQ(model->tensors[2].name, "c");
    EXPECT_EQ(*model->meta.get_string("general.architecture"), "llama");
    EXPECT_EQ(model->maps.size(), 3U);
    EXPECT_TRUE(model->check_unchanged());
    EXPECT_EQ(*open_model_metadata(path(number))->meta.get_string("general.architecture"), "llama");
  }
}

TEST_F(SplitModel, RefusesPartsThatDoNotFit) {
  write(2, part_file(2, 3, 3, "a"));
  EXPECT_THAT(error(), HasSubstr("00002-of-00003.gguf: key \"split.no\": is 2, 1 wanted"));
  write(2, part_file(1, 2, 3, "a"));
  EXPECT_THAT(error(), HasSubstr("\"split.count\": is 2, 3 wanted"));
  write(2, part_file(1, 3, 4, "a"));
  EXPECT_THAT(error(), HasSubstr("\"split.tensors.count\": is 4, 3 wanted"));
  write(2, part_file(1, 3, 3, "c"));
  EXPECT_THAT(error(), HasSubstr("tensor \"c\": is in an earlier part too"));
  write(2, part_file(1, 3, 3, "a", "qwen2"));
  EXPECT_THAT(error(), HasSubstr("is \"qwen2\", the first part's is \"llama\""));
  write(2, part_file(1, 3, 3, "a").substr(0, 60));
  EXPECT_THAT(error(), HasSubstr("00002-of-00003.gguf: "));
  std::filesystem::remove(path(2));
  EXPECT_THAT(error(), HasSubstr("00002-of-00003.gguf: open: "));
}

TEST_F(SplitModel, RefusesWrongFirstParts) {
  write(1, part_file(3, 3, 3, "c", "llama"));
  EXPECT_THAT(error(), HasSubstr("split.no"));
  write(1, part_file(0, 201, 3, "c", "llama"));
  EXPECT_THAT(error(), HasSubstr("split.count"));
  for (const int number : {1, 2, 3})
    write(number, part_file(number - 1, 3, 4, std::string(1, "abc"[number - 1]), "llama"));
  EXPECT_THAT(error(), HasSubstr("\"split.tensors.count\": is 4, the parts hold 3 tensors"));
  write(1, part_file(1, 3, 3, "c", "llama"));
  EXPECT_THAT(open_model(path(2)).error().message, HasSubstr("is not the first of 3 parts"));
}

TEST_F(SplitModel, RefusesPartsWithoutTheirName) {
  const std::string other = folder_ + "/other.gguf";
  std::filesystem::rename(path(1), other);
  EXPECT_THAT(open_model(other).error().message, HasSubstr("must end with -00001-of-00003.gguf"));
}

TEST(OpenModel, RefusesWhatIsNoModelFile) {
  const TempFile text("once upon a time");
  const auto model = open_model(text.path());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::unsupported);
  EXPECT_THAT(model.error().message, HasSubstr("\"GGUF\" expected, \"once\" found"));
  const TempFile empty;
  EXPECT_FALSE(open_model(empty.path()));
  const auto folder = open_model(std::filesystem::temp_directory_path().string());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("is a folder"));
  const auto missing = open_model(text.path() + ".none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
}

TEST(OpenModel, ErrorsStartWithTheFile) {
  const TempFile file(counting_file().text().substr(0, 140));
  const auto model = open_model(file.path());
  ASSERT_FALSE(model);
  EXPECT_TRUE(model.error().message.starts_with(file.path() + ": tensor \"w\": byte ")) << model.error().message;
}

TEST(Metadata, ChecksTypeAndRange) {
  Metadata meta;
  meta.values = {{"n", int64_t{7}},
                 {"big", ~uint64_t{0}},
                 {"x", 0.5},
                 {"nan", std::nan("")},
                 {"s", std::string("hi")},
                 {"yes", true},
                 {"list", std::vector<int64_t>{1, 2}}};
  EXPECT_EQ(meta.get_int("n", 0, 7).value(), 7);
  EXPECT_EQ(meta.get_int("n", 0, 6).error().message, "key \"n\": must be an integer in [0, 6], is 7");
  EXPECT_EQ(meta.get_int("x", 0, 6).error().code, Code::corrupt);
  EXPECT_EQ(meta.get_int("list", 0, 6).error().message,
            "key \"list\": must be an integer in [0, 6], is an array of 2 integers");
  EXPECT_FALSE(meta.get_int("big", 0, std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(meta.get_int("none", 0, 1).error().code, Code::not_found);
  EXPECT_EQ(meta.get_int_or("none", 0, 1, 9).value(), 9);
  EXPECT_FALSE(meta.get_int_or("s", 0, 1, 9));
  EXPECT_EQ(meta.get_double("x", 0, 1).value(), 0.5);
  EXPECT_EQ(meta.get_double("n", 0, 10).value(), 7.0);
  EXPECT_FALSE(meta.get_double("nan", -1e300, 1e300));
  EXPECT_FALSE(meta.get_double("x", 0.6, 1));
  EXPECT_EQ(meta.get_double_or("none", 0, 1, 0.25).value(), 0.25);
  EXPECT_EQ(meta.get_string("s").value(), "hi");
  EXPECT_FALSE(meta.get_string("n"));
  EXPECT_EQ(meta.get_string_or("none", "x").value(), "x");
  EXPECT_EQ(meta.get_bool_or("yes", false).value(), true);
  EXPECT_EQ(meta.get_bool_or("none", true).value(), true);
  EXPECT_FALSE(meta.get_bool_or("n", true));
}

}  // namespace
}  // namespace quire
