#include "app/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "io/test_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ModelStore : public testing::Test {
 protected:
  void put(const fs::path& path, const std::string& text = "1234") const { folder_.write(path, text); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const StoredModel& model : stored_models(root_)) out.push_back(model.name);
    return out;
  }
  std::string path(const std::string& name) const { return stored_model(root_, name); }
  const TempFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(ModelStore, NamesWhatIsThereWhole) {
  EXPECT_THAT(names(), IsEmpty());
  put("o/one/m.gguf");
  put("o/one/README.md");
  put("o/two/m-Q4_K_M.gguf");
  put("o/two/sub/m-Q8_0.gguf");
  put("o/half/m.gguf.0123456789ab.part");
  put("o/split/m-00001-of-00002.gguf");
  put("@pypi/pack-age/p.gguf");
  put("@pypi/nothing/.fetching-x/p.gguf");
  EXPECT_THAT(names(), ElementsAre("o/one", "o/two:m-Q4_K_M.gguf", "o/two:sub/m-Q8_0.gguf", "pypi:pack-age"));
  put("o/split/m-00002-of-00002.gguf");
  const std::vector<StoredModel> all = stored_models(root_);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[1].name, "o/split");
  EXPECT_EQ(all[1].bytes, 8);
  EXPECT_EQ(all[1].path, root_ + "/o/split/m-00001-of-00002.gguf");
  for (const StoredModel& model : all) EXPECT_EQ(path(model.name), model.path);
}

// A folder below that cannot be read: there is no descriptor left for it.
TEST_F(ModelStore, AFolderThatCannotBeReadIsNoEndOfTheProcess) {
  put("o/n/sub/m.gguf");
  const int next = ::dup(STDERR_FILENO);
  ASSERT_GE(next, 0);
  ::close(next);
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_NO_THROW(names());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(names(), ElementsAre("o/n"));
}

TEST_F(ModelStore, ChoosesAsAPullWould) {
  put("o/n/m-Q8_0.gguf");
  EXPECT_EQ(path("o/n"), root_ + "/o/n/m-Q8_0.gguf");
  EXPECT_EQ(path("o/n:Q4_K_M"), "");
  put("o/n/m-Q4_K_M.gguf");
  EXPECT_EQ(path("o/n"), root_ + "/o/n/m-Q4_K_M.gguf");
  EXPECT_EQ(path("o/n:q8_0"), root_ + "/o/n/m-Q8_0.gguf");
  EXPECT_EQ(path("o/other"), "");
  EXPECT_EQ(path("pypi:n"), "");
  EXPECT_EQ(path("../n"), "");
}

TEST_F(ModelStore, AFolderNeedsAllItsShards) {
  put("o/n/config.json");
  put("o/n/model.safetensors.index.json",
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  put("o/n/model-1.safetensors");
  EXPECT_EQ(path("o/n"), "");
  put("o/n/model-2.safetensors");
  EXPECT_EQ(path("o/n"), root_ + "/o/n");
  put("o/n/model.safetensors.index.json", "{");
  EXPECT_EQ(path("o/n"), "");
}

TEST_F(ModelStore, RemovesTheNamedAndNoMore) {
  put("o/n/m-Q8_0.gguf");
  put("o/n/m-Q4_K_M.gguf");
  put("o/n/m-Q4_K_M.gguf.0123456789ab.part");
  put("p/q/m.gguf");
  put("@pypi/x/m.gguf");
  EXPECT_EQ(remove_stored(root_, "o/n:Q8_0").value_or(-1), 4);
  EXPECT_THAT(names(), ElementsAre("o/n", "p/q", "pypi:x"));
  EXPECT_EQ(remove_stored(root_, "pypi:x").value_or(-1), 4);
  EXPECT_EQ(remove_stored(root_, "o/n").value_or(-1), 8) << "what was half fetched goes too";
  EXPECT_FALSE(fs::exists(root_ + "/o"));
  for (const char* name : {"o/n", "o/n:Q8_0", "pypi:x", "p", "../p", "p/..", "/", "", "p/q:Q8_0"}) {
    const auto gone = remove_stored(root_, name);
    ASSERT_FALSE(gone) << name;
    EXPECT_EQ(gone.error().code, Code::not_found);
  }
  EXPECT_THAT(names(), ElementsAre("p/q"));
  EXPECT_TRUE(remove_stored(root_, "p/q"));
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(ModelStore, WhatCannotBeReadIsNotRemoved) {
  put("o/n");  // no folder
  const auto gone = remove_stored(root_, "o/n");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::io);
  EXPECT_EQ(gone.error().message, root_ + "/o/n: cannot be read: Not a directory");
  EXPECT_TRUE(fs::exists(root_ + "/o/n"));
}

TEST(ModelsFolder, IsNamedOrInTheCache) {
  ::setenv("QUIRE_MODELS", "/m", 1);
  EXPECT_EQ(models_folder("/named"), "/named");
  EXPECT_EQ(models_folder(""), "/m");
  ::unsetenv("QUIRE_MODELS");
  ::setenv("XDG_CACHE_HOME", "/c", 1);
  EXPECT_EQ(models_folder(""), "/c/quire/models");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(models_folder(""), "/h/.cache/quire/models");
}

}  // namespace
}  // namespace quire
