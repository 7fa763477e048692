#include "io/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "io/gguf.h"
#include "io/gguf_test_file.h"

namespace quire {
namespace {

using testing::HasSubstr;

class GgufWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire_writer_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/model.gguf";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string folder_, path_;
};

TEST_F(GgufWriterTest, WritesWhatTheReaderReads) {
  GgufWriter writer(path_);
  writer.add_string("general.architecture", "llama");
  writer.add_u32("llama.block_count", 2);
  writer.add_i32("x.i32", -5);
  writer.add_u64("x.u64", uint64_t{1} << 50);
  writer.add_f32("x.f32", 1.5F);
  writer.add_bool("x.yes", true);
  writer.add_strings("x.words", std::vector<std::string>{"a", ""});
  writer.add_i32s("x.ints", std::vector<int32_t>{-1, 1});
  writer.add_f32s("x.floats", std::vector<float>{0.25F});
  writer.add_bytes("x.bytes", std::vector<uint8_t>{0, 255});
  ASSERT_TRUE(writer.add_tensor("odd", 0, {3, 3}));  // 36 bytes: padding follows
  ASSERT_TRUE(writer.add_tensor("blocks", 8, {2, 64}));
  const std::string odd(36, 'o');
  const std::string blocks(136, 'b');
  const auto piece = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  ASSERT_TRUE(writer.write(piece(odd).first(10)));
  ASSERT_TRUE(writer.write(piece(odd).subspan(10)));
  ASSERT_TRUE(writer.write(piece(blocks)));
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(n_files(), 1U);

  const auto model = open_model(path_);
  ASSERT_TRUE(model) << model.error().message;
  const auto& v = model->meta.values;
  EXPECT_EQ(v.size(), 10U);
  EXPECT_EQ(v.at("general.architecture"), MetaValue(std::string("llama")));
  EXPECT_EQ(v.at("llama.block_count"), MetaValue(int64_t{2}));
  EXPECT_EQ(v.at("x.i32"), MetaValue(int64_t{-5}));
  EXPECT_EQ(v.at("x.u64"), MetaValue(int64_t{1} << 50));
  EXPECT_EQ(v.at("x.f32"), MetaValue(1.5));
  EXPECT_EQ(v.at("x.yes"), MetaValue(true));
  EXPECT_EQ(v.at("x.words"), MetaValue(std::vector<std::string>{"a", ""}));
  EXPECT_EQ(v.at("x.ints"), MetaValue(std::vector<int64_t>{-1, 1}));
  EXPECT_EQ(v.at("x.floats"), MetaValue(std::vector<double>{0.25}));
  EXPECT_EQ(v.at("x.bytes"), MetaValue(std::vector<int64_t>{0, 255}));
  const auto first = model->get("odd", {3, 3});
  const auto second = model->get("blocks", {2, 64});
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(std::ranges::equal((*first)->data, piece(odd)));
  EXPECT_TRUE(std::ranges::equal((*second)->data, piece(blocks)));
}

// Every fact and tensor of a real file, copied through the reader, gives the same file bit for bit.
TEST_F(GgufWriterTest, CopiesARealFileExactly) {
  std::vector<std::string> sources;
  for (const char* name : {"stories260K/stories260K-f16.gguf", "babyllama-105/babyllama-105-q4_0.gguf",
                           "llama-2-tiny-random/llama-2-tiny-random.gguf"}) {
    sources.push_back(shared_path(std::string("data/models/") + name));
  }
  sources.push_back(real_model_path());
  std::erase(sources, std::string());
  if (sources.empty()) GTEST_SKIP() << "no bundled model and no shared data";
  for (const std::string& source : sources) {
    const std::string file = read_all(source);
    auto header = parse_gguf(std::as_bytes(std::span(file)), GgufParts::all);
    ASSERT_TRUE(header) << header.error().message;
    std::ranges::sort(header->tensors, {}, &GgufTensor::offset);
    GgufWriter writer(path_);
    for (const GgufFact& fact : header->facts) writer.add_raw(fact.key, fact.value);
    for (const GgufTensor& t : header->tensors) ASSERT_TRUE(writer.add_tensor(t.name, t.type, t.shape));
    for (const GgufTensor& t : header->tensors) {
      const auto bytes =
          std::as_bytes(std::span(file)).subspan(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes));
      ASSERT_TRUE(writer.write(bytes));
    }
    ASSERT_TRUE(writer.finish());
    EXPECT_TRUE(read_all(path_) == file) << source;
  }
}

TEST_F(GgufWriterTest, LeavesTheOldFileUntilItIsFinished) {
  std::ofstream(path_) << "old";
  {
    GgufWriter writer(path_);
    ASSERT_TRUE(writer.add_tensor("w", 0, {8}));
    const std::string half(16, 'x');
    ASSERT_TRUE(writer.write(std::as_bytes(std::span(half))));
    EXPECT_EQ(read_all(path_), "old");
    const Status early = writer.finish();
    ASSERT_FALSE(early);
    EXPECT_EQ(early.error().message, path_ + ": tensor \"w\": 16 of 32 bytes were written");
  }
  EXPECT_EQ(read_all(path_), "old");
  EXPECT_EQ(n_files(), 1U);  // nothing is left behind
}

TEST_F(GgufWriterTest, RefusesWhatTheFormatCannotHold) {
  GgufWriter writer(path_);
  EXPECT_FALSE(writer.add_tensor("", 0, {8}));
  EXPECT_FALSE(writer.add_tensor("w", 4, {8}));
  EXPECT_FALSE(writer.add_tensor("w", 0, {}));
  EXPECT_FALSE(writer.add_tensor("w", 0, {1, 1, 1, 1, 1}));
  EXPECT_FALSE(writer.add_tensor("w", 0, {8, 0}));
  EXPECT_FALSE(writer.add_tensor("w", 0, {int64_t{1} << 40, int64_t{1} << 40}));
  EXPECT_FALSE(writer.add_tensor("w", 8, {2, 40}));
  ASSERT_TRUE(writer.add_tensor("w", 8, {2, 64}));
  EXPECT_THAT(writer.add_tensor("w", 0, {8}).error().message, HasSubstr("is declared twice"));
}

TEST_F(GgufWriterTest, NamesTheFileThatCannotBeWritten) {
  GgufWriter writer(folder_ + "/none/model.gguf");
  const Status status = writer.finish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::io);
  EXPECT_THAT(status.error().message, HasSubstr("/none/model.gguf: create: "));
}

}  // namespace
}  // namespace quire
