#include "app/bundled.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace quire {
namespace {

namespace fs = std::filesystem;

class Bundled : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "quire_bundled_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string put(const fs::path& folder) const {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / kBundledModel) << "x";
    return (root_ / folder / kBundledModel).string();
  }
  fs::path root_;
};

TEST_F(Bundled, IsInTheSharedFolderOfAnInstallation) {
  const std::string path = put("share/quire/models");
  EXPECT_EQ(bundled_model_from(root_ / "bin", kBundledModel), path);
}

TEST_F(Bundled, IsInTheSourcesOfABuild) {
  const std::string path = put("models");
  EXPECT_EQ(bundled_model_from(root_ / "build" / "release", kBundledModel), path);
}

TEST_F(Bundled, AnInstallationComesFirst) {
  put("models");
  const std::string path = put("a/share/quire/models");
  EXPECT_EQ(bundled_model_from(root_ / "a" / "bin", kBundledModel), path);
}

TEST_F(Bundled, NoFileIsNoName) {
  fs::create_directories(root_ / "share/quire/models" / kBundledModel);
  EXPECT_EQ(bundled_model_from(root_ / "bin", kBundledModel), "");
}

}  // namespace
}  // namespace quire
