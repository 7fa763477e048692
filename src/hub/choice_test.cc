#include "hub/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<HubFile> repository(std::initializer_list<const char*> paths) {
  std::vector<HubFile> out;
  for (const char* path : paths) out.push_back({.path = path, .size = 1, .sha256 = {}, .git_sha1 = {}});
  return out;
}

std::vector<std::string> names(const Result<HubChoice>& choice) {
  std::vector<std::string> out;
  if (!choice) return {choice.error().message};
  for (const HubFile& file : choice->files) out.push_back(file.path);
  return out;
}

TEST(HubChoice, TheOnlyOneOrWhatMostPeopleWant) {
  EXPECT_THAT(names(choose_files(repository({"README.md", "x.gguf"}), "")), ElementsAre("x.gguf"));
  EXPECT_THAT(names(choose_files(repository({"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-F16.gguf"}), "")),
              ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(names(choose_files(repository({"m.q8_0.gguf", "m.q2_k.gguf"}), "")), ElementsAre("m.q8_0.gguf"));
  EXPECT_THAT(names(choose_files(repository({"mmproj-m.gguf", "m.gguf", "m.imatrix.gguf"}), "")),
              ElementsAre("m.gguf"));
  EXPECT_THAT(names(choose_files(repository({"a-Q4_K_M.gguf", "b-Q4_K_M.gguf", "c-Q8_0.gguf"}), "")).front(),
              HasSubstr("several models"));
}

TEST(HubChoice, ATagIsAWholeWord) {
  const auto files = repository({"m-UD-Q4_K_XL.gguf", "m-Q4_K_M.gguf", "m-Q4_K.gguf", "m-IQ4_XS.gguf"});
  EXPECT_THAT(names(choose_files(files, "Q4_K")), ElementsAre("m-Q4_K.gguf"));
  EXPECT_THAT(names(choose_files(files, "q4_k_m")), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(names(choose_files(files, "UD-Q4_K_XL")), ElementsAre("m-UD-Q4_K_XL.gguf"));
  EXPECT_THAT(names(choose_files(files, "Q4_XS")).front(), HasSubstr("no file \"Q4_XS\""));
  EXPECT_FALSE(choose_files(files, "m")) << "four of them";
}

TEST(HubChoice, APartStandsForAll) {
  const auto files = repository({"d/m-00002-of-00002.gguf", "d/m-00001-of-00002.gguf", "e.gguf"});
  for (const char* wanted : {"m-00002-of-00002.gguf", "d/m-00001-of-00002.gguf"}) {
    const auto choice = choose_files(files, wanted);
    EXPECT_THAT(names(choice), ElementsAre("d/m-00001-of-00002.gguf", "d/m-00002-of-00002.gguf"));
    EXPECT_EQ(choice->entry, "d/m-00001-of-00002.gguf");
  }
  EXPECT_THAT(names(choose_files(repository({"m-00001-of-99999.gguf"}), "")).front(), HasSubstr("part 2 of 99999"));
  for (const char* name : {"m-00003-of-00002.gguf", "m-00000-of-00000.gguf", "m-00001-of-00000.gguf"})
    EXPECT_FALSE(choose_files(repository({name}), "")) << name;
}

TEST(HubChoice, AFolderIsWhatOpens) {
  const auto choice = choose_files(
      repository({"model.safetensors", "config.json", "tokenizer.json", "x.bin", "sub/tokenizer.json", "LICENSE"}), "");
  EXPECT_THAT(names(choice), ElementsAre("config.json", "tokenizer.json", "LICENSE", "model.safetensors"));
  EXPECT_EQ(choice->entry, "");
  EXPECT_FALSE(choose_files(repository({"model.safetensors"}), "")) << "without config.json";
  EXPECT_FALSE(choose_files({}, ""));
}

TEST(HubChoice, AnyFileByItsName) {
  const auto files = repository({"a/config.json", "b/config.json", "c/x.bin", "x.gguf"});
  EXPECT_THAT(names(choose_files(files, "x.bin")), ElementsAre("c/x.bin"));
  EXPECT_THAT(names(choose_files(files, "b/config.json")), ElementsAre("b/config.json"));
  EXPECT_THAT(names(choose_files(files, "config.json")).front(), HasSubstr("several files"));
}

}  // namespace
}  // namespace quire
