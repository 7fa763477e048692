#include "base/mmap.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

namespace quire {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "quire_mmap_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(size_t n_bytes, char with = 'x') const {
    const std::string path = folder_ + "/file";
    std::ofstream(path, std::ios::binary) << std::string(n_bytes, with);
    return path;
  }
  std::string folder_;
};

TEST_F(MappedFileTest, ShowsTheFilesBytes) {
  const auto map = MappedFile::open(file(10000));
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ((*map)->size(), 10000);
  const auto bytes = (*map)->bytes();
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{'x'}; }));
  EXPECT_TRUE((*map)->check_unchanged());
}

TEST_F(MappedFileTest, ReleasedPagesComeBackFromTheFile) {
  const auto map = MappedFile::open(file(50000));
  ASSERT_TRUE(map) << map.error().message;
  const auto bytes = (*map)->bytes();
  const auto all_x = [](std::span<const std::byte> part) {
    return std::all_of(part.begin(), part.end(), [](std::byte b) { return b == std::byte{'x'}; });
  };
  EXPECT_TRUE(all_x(bytes));
  for (const auto part :
       {bytes, bytes.subspan(100, 40000), bytes.subspan(4096, 4096), bytes.first(10), bytes.first(0)}) {
    (*map)->release(part);
    EXPECT_TRUE(all_x(bytes));
  }
  EXPECT_TRUE((*map)->check_unchanged());
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  const auto map = MappedFile::open(file(0));
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_TRUE((*map)->bytes().empty());
  EXPECT_TRUE((*map)->check_unchanged());
}

TEST_F(MappedFileTest, RefusesWhatIsNoRegularFile) {
  const auto missing = MappedFile::open(folder_ + "/none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_TRUE(missing.error().message.starts_with(folder_ + "/none: ")) << missing.error().message;
  const auto folder = MappedFile::open(folder_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, Code::invalid);
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto fifo = MappedFile::open(pipe);  // must not wait for a writer
  ASSERT_FALSE(fifo);
  EXPECT_EQ(fifo.error().code, Code::invalid);
}

// A read that the compiler may not remember or leave out.
std::byte peek(std::span<const std::byte> bytes, size_t i) {
  const volatile std::byte* data = bytes.data();
  return data[i];
}

TEST_F(MappedFileTest, TruncationReadsAsZerosAndIsReported) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const std::string path = file(8 * page);
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map);
  const auto bytes = (*map)->bytes();
  ASSERT_EQ(bytes[7 * page], std::byte{'x'});
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(2 * page)), 0);
  EXPECT_EQ(peek(bytes, page), std::byte{'x'});
  EXPECT_EQ(peek(bytes, 5 * page + 17), std::byte{0});
  EXPECT_EQ(peek(bytes, 3 * page), std::byte{0});
  EXPECT_EQ(peek(bytes, 8 * page - 1), std::byte{0});
  const Status status = (*map)->check_unchanged();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::corrupt);
}

TEST_F(MappedFileTest, TruncationIsSeenBeforeAnyRead) {
  const std::string path = file(5000);
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map);
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  EXPECT_FALSE((*map)->check_unchanged());
}

TEST_F(MappedFileTest, WritingIsSeen) {
  const std::string path = file(5000);
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_FALSE((*map)->check_unchanged());
}

TEST_F(MappedFileTest, ADamagedMapLeavesOthersAlone) {
  const std::string path = file(5000);
  const auto damaged = MappedFile::open(path);
  std::filesystem::copy(path, folder_ + "/copy");
  const auto whole = MappedFile::open(folder_ + "/copy");
  ASSERT_TRUE(damaged && whole);
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_EQ(peek((*damaged)->bytes(), 10), std::byte{0});
  EXPECT_EQ((*whole)->bytes()[10], std::byte{'x'});
  EXPECT_TRUE((*whole)->check_unchanged());
}

TEST_F(MappedFileTest, ManyMapsAreRefusedNotUnguarded) {
  const std::string path = file(100);
  std::vector<std::shared_ptr<const MappedFile>> maps;
  for (int i = 0; i < 256; ++i) {
    auto map = MappedFile::open(path);
    ASSERT_TRUE(map) << i << ": " << map.error().message;
    maps.push_back(*map);
  }
  const auto one_more = MappedFile::open(path);
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, Code::exhausted);
  maps.pop_back();
  EXPECT_TRUE(MappedFile::open(path));
}

TEST_F(MappedFileTest, AForeignBusErrorStillKills) {
  const auto map = MappedFile::open(file(100));
  ASSERT_TRUE(map);
  EXPECT_DEATH(raise(SIGBUS), "");
}

}  // namespace
}  // namespace quire
