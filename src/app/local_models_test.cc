#include "app/local_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "app/model_store.h"
#include "io/test_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class LocalModels : public testing::Test {
 protected:
  void put(const fs::path& path, const std::string& text = "1234") const { folder_.write(path, text); }
  const TempFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(LocalModels, AFolderHoldsFilesPartsAndFolders) {
  put("b.gguf");
  put("a-00001-of-00002.gguf", "123");
  put("a-00002-of-00002.gguf", "12345");
  put("half-00001-of-00002.gguf");
  put("mmproj-b.gguf");
  put("b-mmproj-f16.gguf");
  put("notes.txt");
  put("hugging/config.json");
  put("hugging/model.safetensors", "1234567");
  put("other/readme.md");
  put(std::string("bad\nname.gguf"));
  fs::create_symlink("b.gguf", root_ / "linked.gguf");
  std::vector<std::string> left_out;
  const auto models = models_in(root_.string(), left_out);
  ASSERT_TRUE(models) << models.error().message;
  std::vector<std::string> told;
  for (const LocalModel& m : *models) told.push_back(m.name + " " + m.format + " " + std::to_string(m.bytes));
  EXPECT_THAT(told, ElementsAre("a gguf 8", "b gguf 4", "hugging safetensors 7", "linked gguf 4"));
  EXPECT_EQ((*models)[0].path, (root_ / "a-00001-of-00002.gguf").string());
  EXPECT_THAT(left_out, ElementsAre((root_ / "bad\nname.gguf").string()));
}

// Its time stays when who may read it changes.
TEST_F(LocalModels, AChangeOfPermissionsIsSeen) {
  put("a.gguf");
  put("hugging/config.json");
  put("hugging/model.safetensors", "1234567");
  std::vector<std::string> left_out;
  const auto before = models_in(root_.string(), left_out);
  // The clock of files moves in steps of some milliseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  for (const char* file : {"a.gguf", "hugging/model.safetensors"})
    fs::permissions(root_ / file, fs::perms::owner_read | fs::perms::group_read);
  const auto after = models_in(root_.string(), left_out);
  ASSERT_TRUE(before && after);
  ASSERT_EQ(after->size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*after)[i].modified_s, (*before)[i].modified_s);
    EXPECT_GT((*after)[i].changed_ns, (*before)[i].changed_ns);
  }
}

// A model in parts is all of them: their times, and their bytes.
TEST_F(LocalModels, LaterPartsCount) {
  put("a-00001-of-00003.gguf", "1");
  put("a-00002-of-00003.gguf", "12");
  put("a-00003-of-00003.gguf", "123");
  const fs::path last = root_ / "a-00003-of-00003.gguf";
  const auto look = [&] {
    std::vector<std::string> left_out;
    const auto models = models_in(root_.string(), left_out);
    EXPECT_TRUE(models && models->size() == 1U);
    return models && models->size() == 1U ? models->front() : LocalModel();
  };
  const LocalModel before = look();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  fs::permissions(last, fs::perms::owner_read | fs::perms::group_read);
  EXPECT_GT(look().changed_ns, before.changed_ns);
  EXPECT_EQ(look().modified_s, before.modified_s);
  fs::last_write_time(last, fs::last_write_time(last) + std::chrono::hours(1));
  EXPECT_EQ(look().modified_s, modified_s(last.string()));
  const auto named = parse_local_model("x=" + (root_ / "a-00001-of-00003.gguf").string());
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->bytes, 6);
  EXPECT_EQ(named->modified_s, modified_s(last.string()));
  EXPECT_EQ(parse_local_model("x=" + last.string())->bytes, 3) << "no first part";
}

TEST_F(LocalModels, AFolderIsAModelWhenItsWeightsAreThere) {
  std::vector<std::string> left_out;
  const auto there = [&] {
    const auto models = models_in(root_.string(), left_out);
    std::vector<std::string> out;
    if (!models) return out;
    for (const LocalModel& m : *models) out.push_back(m.name + " " + std::to_string(m.bytes));
    return out;
  };
  put("m/config.json");
  EXPECT_THAT(there(), ElementsAre());
  put("m/model.safetensors.index.json", R"({"weight_map":{"x":"model-1.safetensors","y":"model-2.safetensors"}})");
  put("m/model-1.safetensors", "123");
  EXPECT_THAT(there(), ElementsAre());
  put("m/model-2.safetensors", "12345");
  EXPECT_THAT(there(), ElementsAre("m 8"));
  // What is written in the folder is seen by its time too.
  const auto newer = fs::last_write_time(root_ / "m") + std::chrono::hours(1);
  fs::last_write_time(root_ / "m/model-1.safetensors", newer);
  const auto models = models_in(root_.string(), left_out);
  ASSERT_TRUE(models);
  EXPECT_EQ((*models)[0].modified_s, modified_s((root_ / "m/model-1.safetensors").string()));
}

TEST_F(LocalModels, AFolderThatIsNotThereOrHoldsNoneIsAnErrorThatNamesIt) {
  std::vector<std::string> left_out;
  EXPECT_THAT(models_in((root_ / "absent").string(), left_out).error().message,
              HasSubstr("absent cannot be read: No such file"));
  put("notes.txt");
  const auto none = models_in(root_.string(), left_out);
  EXPECT_EQ(none.error().code, Code::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("there is no model in " + root_.string()));
  EXPECT_THAT(models_in((root_ / "notes.txt").string(), left_out).error().message, HasSubstr("Not a directory"));
}

TEST_F(LocalModels, NamesAreNoPaths) {
  for (const char* name : {"a", "a-b_c.d:e+f@g", "with blank", "\xc3\xbc", "a=b"})
    EXPECT_TRUE(is_model_name(name)) << name;
  for (const char* name : {"", ".", "..", "a/b", "../a", "a\\b", "a\"b", "a\nb", "a\x7f", "\xff"})
    EXPECT_FALSE(is_model_name(name)) << name;
  EXPECT_FALSE(is_model_name(std::string(256, 'a')));
  EXPECT_FALSE(is_model_name(std::string("a\0b", 3)));
}

TEST_F(LocalModels, ANamedModelIsAFileThatIsThere) {
  put("b.gguf");
  const auto model = parse_local_model("small=" + (root_ / "x/../b.gguf").string());
  EXPECT_FALSE(model);  // there is no x
  const auto good = parse_local_model("small=" + (root_ / "b.gguf").string());
  ASSERT_TRUE(good);
  EXPECT_EQ(good->name, "small");
  EXPECT_EQ(good->bytes, 4);
  for (const char* text : {"", "small", "=x", "a/b=x", "..=x", "a\nb=x"})
    EXPECT_THAT(parse_local_model(text).error().message, HasSubstr("must be NAME=PATH")) << text;
  EXPECT_THAT(parse_local_model("small=/no/such/file").error().message, HasSubstr("/no/such/file"));
  EXPECT_FALSE(parse_local_model("small="));
}

TEST_F(LocalModels, TwoOfOneNameAreRefusedNamingBoth) {
  put("m.gguf");
  put("m/config.json");
  put("m/model.safetensors");
  std::vector<std::string> left_out;
  const auto models = models_in(root_.string(), left_out);
  ASSERT_TRUE(models);
  const Status same = check_names(*models);
  ASSERT_FALSE(same);
  EXPECT_THAT(same.error().message, HasSubstr("two models are called \"m\""));
  EXPECT_THAT(same.error().message, HasSubstr((root_ / "m.gguf").string()));
}

TEST_F(LocalModels, ANamedModelStaysWhenTheFolderGetsOneOfItsName) {
  put("named.gguf", "named");
  put("folder/other.gguf");
  auto named = parse_local_model("chat=" + (root_ / "named.gguf").string());
  ASSERT_TRUE(named);
  LocalModelSource source;
  source.folder = (root_ / "folder").string();
  source.named = {*named};
  put("folder/chat.gguf");
  const auto models = source.read();
  ASSERT_TRUE(models);
  std::vector<std::string> told;
  for (const LocalModel& m : *models) told.push_back(m.name + " " + m.path);
  EXPECT_THAT(told, UnorderedElementsAre("chat " + named->path, "other " + (root_ / "folder/other.gguf").string()));
  EXPECT_THAT(source.lost, ElementsAre((root_ / "folder/chat.gguf").string()));
}

TEST(ServeArguments, AreThoseOfServeButForTheRoutersOwn) {
  EXPECT_THAT(*serve_arguments({"ctx=4096", "no-prefix-cache"}), ElementsAre("--ctx=4096", "--no-prefix-cache"));
  EXPECT_THAT(serve_arguments({"port=1"}).error().message, HasSubstr("port of engines is the router's own"));
  EXPECT_THAT(serve_arguments({"ctxx=1"}).error().message, HasSubstr("did you mean ctx?"));
  EXPECT_THAT(serve_arguments({""}).error().message, HasSubstr("has no option --"));
}

TEST(ModelArguments, AreOfOneModelAndGoBeforeThoseOfAll) {
  std::vector<LocalModel> models(3);
  models[0].name = "a";
  models[1].name = "a=b";
  models[2].name = "c";
  const std::vector<std::string> all{"--ctx=1", "--threads=2"};
  const auto own = model_arguments({"a=ctx=3", "a=b=threads=4", "a=b=no-prefix-cache"}, models, all);
  ASSERT_TRUE(own);
  EXPECT_THAT((*own)[0], ElementsAre("--threads=2", "--ctx=3"));
  EXPECT_THAT((*own)[1], ElementsAre("--ctx=1", "--threads=4", "--no-prefix-cache"));
  EXPECT_THAT((*own)[2], ElementsAre("--ctx=1", "--threads=2"));
  EXPECT_THAT(model_arguments({"d=ctx=3"}, models, all).error().message, HasSubstr("MODEL=NAME=VALUE"));
  EXPECT_THAT(model_arguments({"c"}, models, all).error().message, HasSubstr("MODEL=NAME=VALUE"));
  EXPECT_THAT(model_arguments({"c=port=3"}, models, all).error().message, HasSubstr("router's own"));
  EXPECT_THAT(model_arguments({"c=ctxx=3"}, models, all).error().message, HasSubstr("did you mean ctx?"));
}

TEST(ModelArguments, NamePrefixesAndAdapters) {
  EXPECT_THAT(variants_of({"--ctx=1", "--prefix=radio=/a/b=c", "--lora=pirate=/x", "--no-prefix-cache"}),
              ElementsAre("radio", "pirate"));
  EXPECT_THAT(variants_of({}), ElementsAre());
}

TEST(ServeCommand, KeysGoInByHashAndOurVariablesDoNot) {
  ::setenv("QUIRE_PORT", "1", 1);
  LocalModel model;
  model.name = "m";
  model.path = "/models/m.gguf";
  const ChildSpec open = serve_command(model, {"--ctx=1"}, {});
  EXPECT_THAT(open.arguments,
              ElementsAre("quire", "serve", "/models/m.gguf", "--name=m", "--host=127.0.0.1", "--port=0", "--ctx=1"));
  EXPECT_EQ(open.input, "");
  for (const std::string& variable : open.environment) EXPECT_FALSE(variable.starts_with("QUIRE_PORT"));
  ApiKey key = plain_key("one", "secret", true, false);
  key.limits.requests_per_minute = 1;
  const ChildSpec closed = serve_command(model, {}, {key});
  EXPECT_EQ(closed.arguments.back(), "--api-keys=/dev/stdin");
  EXPECT_THAT(closed.input, Not(HasSubstr("secret")));
  const auto keys = read_keys(closed.input);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ((*keys)[0].hash, key.hash);
  EXPECT_EQ((*keys)[0].limits.requests_per_minute, 0);
  ::unsetenv("QUIRE_PORT");
}

}  // namespace
}  // namespace quire
