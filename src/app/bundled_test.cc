#include "app/bundled.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/test_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class Bundled : public testing::Test {
 protected:
  std::string put(const fs::path& folder) const {
    folder_.write(folder / kBundledModel, "x");
    return (root_ / folder / kBundledModel).string();
  }
  const TempFolder folder_;
  const fs::path root_ = folder_.path();
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
