#include "app/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "io/test_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFiles : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string content(const std::string& name) const {
    std::stringstream out;
    out << std::ifstream(path(name)).rdbuf();
    return out.str();
  }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  Status check(const std::string& out, const std::vector<std::string>& read) const {
    return check_not_read("--out", out, read);
  }
  const TempFolder folder_;
};

TEST_F(OutputFiles, WhatIsReadIsNotWrittenUnderAnyName) {
  folder_.write("in", "text");
  folder_.write("model/config.json", "{}");
  folder_.write("other", "mine");
  fs::create_hard_link(path("in"), path("hard"));
  fs::create_symlink(path("in"), path("link"));
  for (const char* out : {"in", "hard", "link"}) {
    const Status refused = check(path(out), {"", path("other"), path("in")});
    ASSERT_FALSE(refused) << out;
    EXPECT_EQ(
        refused.error().message,
        "--out " + path(out) + " is what is read, under this name or another, or lies in its folder; name a new file");
  }
  EXPECT_FALSE(check(path("model"), {path("model")}));
  EXPECT_FALSE(check(path("model/config.json"), {path("model")}));
  EXPECT_TRUE(check(path("model/new"), {path("model")})) << "which takes nothing away";
  EXPECT_TRUE(check(path("other"), {path("in"), path("gone"), ""}));
  EXPECT_TRUE(check(path("new"), {path("in")}));
  EXPECT_TRUE(check("", {""}));
  EXPECT_TRUE(check("/dev/null", {path("in")}));
}

TEST_F(OutputFiles, OnlyAFileIsReplaced) {
  folder_.write("file", "mine");
  EXPECT_TRUE(check_may_be_replaced("OUT", path("file")));
  EXPECT_TRUE(check_may_be_replaced("OUT", path("new")));
  EXPECT_EQ(check_may_be_replaced("OUT", "/dev/null").error().message, "OUT /dev/null is there and is no file");
  EXPECT_FALSE(check_may_be_replaced("OUT", folder_.path()));
}

TEST_F(OutputFiles, TakesItsPlaceAsAWhole) {
  folder_.write("out", "before");
  fs::create_symlink("out", path("link"));
  {
    auto file = OutputFile::create(path("link"));
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE((*file)->write("after", 5));
    EXPECT_EQ(content("out"), "before");
    ASSERT_TRUE((*file)->finish());
  }
  EXPECT_EQ(content("out"), "after");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(n_files(), 2U);
}

TEST_F(OutputFiles, NothingStaysOfAnUnfinishedOne) {
  folder_.write("out", "before");
  {
    const auto file = OutputFile::create(path("out"));
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write("after", 5));
  }
  EXPECT_EQ(content("out"), "before");
  EXPECT_EQ(n_files(), 1U);
}

TEST_F(OutputFiles, AFullDiskIsAnErrorAndLeavesNothing) {
  const auto full = OutputFile::create("/dev/full");
  ASSERT_TRUE(full);
  ASSERT_TRUE((*full)->write("x", 1)) << "into a buffer";
  EXPECT_EQ((*full)->finish().error().message, "/dev/full: cannot write: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));

  // Of a file the system's limit of its size stands for a full disk.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{100'000, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status;
  {
    const auto file = OutputFile::create(path("out"));
    const std::string much(200'000, 'x');
    status = (*file)->write(much.data(), much.size());
    if (status) status = (*file)->finish();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, path("out") + ": cannot write: File too large");
  EXPECT_EQ(n_files(), 0U);
}

TEST_F(OutputFiles, AFolderThatIsNotThereIsNamed) {
  const auto file = OutputFile::create(path("gone/out"));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("gone/out: cannot create: No such file or directory"));
}

}  // namespace
}  // namespace quire
