// Files that options name, read up to a limit.
#include "app/text_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quire {
namespace {

class TextFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "text_file_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& text) const {
    const std::string path = folder_ / "text";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(TextFile, AllBytesUpToTheLimit) {
  const std::string text(3'000'000, 'x');
  EXPECT_EQ(*read_text_file("--file", write(text), 3'000'000), text);
  EXPECT_EQ(*read_text_file("--file", write(""), 0), "");
  EXPECT_EQ(*read_text_file("--file", write(std::string("a\0b", 3)), 10), std::string("a\0b", 3));
}

TEST_F(TextFile, ErrorsNameOptionPathAndLimit) {
  const std::string path = write("four");
  const auto longer = read_text_file("--file", path, 3);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, Code::invalid);
  EXPECT_EQ(longer.error().message, "--file: " + path + " has more than 3 bytes");
  for (const std::string& none : {(folder_ / "none").string(), folder_.string()}) {
    const auto read = read_text_file("--file", none, 3);
    ASSERT_FALSE(read) << none;
    EXPECT_EQ(read.error().code, Code::io);
    EXPECT_EQ(read.error().message, "--file: " + none + ": cannot be read");
  }
}

// What never ends is not read to its end.
TEST_F(TextFile, ADeviceEndsAtTheLimit) {
  EXPECT_EQ(read_text_file("--file", "/dev/zero", 1000).error().message, "--file: /dev/zero has more than 1000 bytes");
}

}  // namespace
}  // namespace quire
