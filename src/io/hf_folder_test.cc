#include "io/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/describe.h"
#include "io/gguf_test_file.h"
#include "io/test_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// One tensor of two numbers of this type.
std::string shard(const std::string& name, const std::string& dtype = "BF16", int bytes = 4) {
  const std::string header =
      "{\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":[0,)" + std::to_string(bytes) + "]}}";
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(static_cast<size_t>(bytes), 'x');
}

constexpr const char* kIndex = "model.safetensors.index.json";

std::string error_of(const TempFolder& folder) {
  const auto model = open_model(folder.path());
  return model ? "opened" : model.error().message;
}

TEST(HfFolder, ReadsFactsAndTensors) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type":"llama","hidden_size":64,"rope_scaling":{"factor":8.5,"a":{"b":[1,2]}},)"
                              R"("eos_token_id":[1,2],"head_dim":null,"mixed":[1,"a"],"names":["x","y"]})");
  folder.write("generation_config.json", R"({"temperature":0.6,"eos_token_id":7})");
  folder.write("model.safetensors", shard("w"));
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(model->is_hugging_face);
  EXPECT_EQ(model->container, "safetensors");
  EXPECT_EQ(*model->meta.get_int("hf.hidden_size", 0, 100), 64);
  EXPECT_EQ(*model->meta.get_double("hf.rope_scaling.factor", 0, 100), 8.5);
  EXPECT_EQ(std::get<std::vector<int64_t>>(*model->meta.find("hf.rope_scaling.a.b")), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*model->meta.get_int("hf_generation.eos_token_id", 0, 9), 7);
  EXPECT_EQ(model->meta.find("hf.head_dim"), nullptr);
  EXPECT_EQ(model->meta.find("hf.mixed"), nullptr);
  ASSERT_EQ(model->tensors.size(), 1U);
  EXPECT_EQ(model->tensors[0].format->name, "bf16");
  EXPECT_EQ(model->tensors[0].data.size(), 4U);
  EXPECT_TRUE(model->check_unchanged());
}

TEST(HfFolder, TheTextModelsConfigurationStandsForTheWhole) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type":"gemma3","hidden_size":1,"text_config":{"hidden_size":64}})");
  const auto model = open_model_metadata(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*model->meta.get_int("hf.hidden_size", 0, 100), 64);
  EXPECT_EQ(*model->meta.get_string("hf.model_type"), "gemma3");
}

TEST(HfFolder, InfinitiesAreLargeNumbers) {
  const TempFolder folder;
  folder.write("config.json", R"({"limit":[0.0, Infinity],"least":-Infinity,"name":"\"Infinity","Infinity":1})");
  const auto model = open_model_metadata(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(std::get<std::vector<double>>(*model->meta.find("hf.limit")), (std::vector<double>{0.0, 1e308}));
  EXPECT_EQ(std::get<double>(*model->meta.find("hf.least")), -1e308);
  EXPECT_EQ(*model->meta.get_string("hf.name"), "\"Infinity");
  EXPECT_EQ(*model->meta.get_int("hf.Infinity", 0, 1), 1);
  folder.write("config.json", R"({"limit":NaN})");
  EXPECT_FALSE(open_model_metadata(folder.path()));
}

TEST(HfFolder, ReadsShardsThatTheIndexNames) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("one.safetensors", shard("b"));
  folder.write("two.safetensors", shard("a", "F32", 8));
  folder.write(kIndex, R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})");
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->tensors.size(), 2U);
  EXPECT_EQ(model->tensors[0].name, "a");
  EXPECT_EQ(model->tensors[1].name, "b");
}

TEST(HfFolder, RefusesIndexesThatDoNotFit) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("one.safetensors", shard("b"));
  folder.write("two.safetensors", shard("b"));
  const auto with_index = [&](std::string_view index) {
    folder.write(kIndex, index);
    return error_of(folder);
  };
  EXPECT_THAT(with_index("{"), HasSubstr(kIndex));
  EXPECT_THAT(with_index("{}"), HasSubstr("weight_map"));
  EXPECT_THAT(with_index(R"({"weight_map":{"b":7}})"), HasSubstr("names no file"));
  EXPECT_THAT(with_index(R"({"weight_map":{"b":"none.safetensors"}})"), HasSubstr("there is no such file"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":"one.safetensors"}})"), HasSubstr("tensor \"b\": the index does not"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})"),
              HasSubstr("one.safetensors: tensor \"a\": is in the index and not in the file"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})"),
              HasSubstr("two.safetensors: tensor \"b\": the index expects it in \"one.safetensors\""));
  EXPECT_THAT(with_index(R"({"weight_map":{}})"), HasSubstr("neither"));
}

TEST(HfFolder, RefusesPathsOutOfTheFolder) {
  const TempFolder folder;
  const TempFile elsewhere(shard("a"));
  folder.write("config.json", "{}");
  for (const std::string& name : {std::string("../a.safetensors"), std::string("/etc/a.safetensors"),
                                  std::string("a/b.safetensors"), std::string("passwd"), std::string("..")}) {
    folder.write(kIndex, R"({"weight_map":{"a":")" + name + "\"}}");
    EXPECT_THAT(error_of(folder), HasSubstr("must name a .safetensors file of the folder")) << name;
  }
  folder.write(kIndex, R"({"weight_map":{"a":"link.safetensors"}})");
  fs::create_symlink(elsewhere.path(), fs::path(folder.path()) / "link.safetensors");
  EXPECT_THAT(error_of(folder), HasSubstr("a link to a place outside"));
}

// models--org--name/{blobs/<hash>, snapshots/<commit>/model.safetensors → ../../blobs/<hash>}
TEST(HfFolder, FollowsTheHubCachesLinks) {
  const TempFolder cache;
  const fs::path snapshot = fs::path(cache.path()) / "snapshots" / "0123";
  fs::create_directories(snapshot);
  fs::create_directories(fs::path(cache.path()) / "blobs");
  cache.write("blobs/hash1", "{}");
  cache.write("blobs/hash2", shard("a"));
  fs::create_symlink("../../blobs/hash1", snapshot / "config.json");
  fs::create_symlink("../../blobs/hash2", snapshot / "model.safetensors");
  const auto model = open_model(snapshot.string());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.size(), 1U);
}

TEST(HfFolder, RefusesWrongParts) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  EXPECT_THAT(error_of(folder), HasSubstr("neither model.safetensors nor"));
  folder.write("pytorch_model.bin", "\x80\x02}");
  EXPECT_THAT(error_of(folder), HasSubstr("pickled code"));
  folder.write("model.safetensors", shard("w", "I64", 16));
  EXPECT_THAT(error_of(folder), HasSubstr("tensor \"w\": byte"));
  EXPECT_THAT(error_of(folder), HasSubstr("dtype I64 is not supported"));
  folder.write("model.safetensors", shard("model.rotary_emb.inv_freq", "I64", 16));
  EXPECT_EQ(error_of(folder), "opened");
  folder.write("model.safetensors", "short");
  EXPECT_THAT(error_of(folder), HasSubstr("model.safetensors: byte 0"));
  folder.write("model.safetensors", shard("w"));
  for (const char* config : {"", "[]", "{", "{\"a\":1,\"a\":2}"}) {
    folder.write("config.json", config);
    EXPECT_THAT(error_of(folder), HasSubstr("config.json: ")) << config;
  }
  folder.write("config.json", std::string(5 << 20, ' '));
  EXPECT_THAT(error_of(folder), HasSubstr("at most 4194304"));
  folder.write("config.json", "{}");
  folder.write("generation_config.json", "7");
  EXPECT_THAT(error_of(folder), HasSubstr("generation_config.json: must be a JSON object"));
}

TEST(HfFolder, IsDescribed) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type":"llama","hidden_size":64})");
  folder.write("model.safetensors", shard("w", "I64", 16));
  const auto json = describe_model(folder.path());
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->find("arch")->dump(), "\"llama\"");
  EXPECT_EQ(json->find("hyper")->dump(), R"({"hidden_size":64,"model_type":"llama"})");
  EXPECT_EQ(
      json->find("weights")->dump(),
      R"({"n_tensors":1,"bytes":16,"types":[{"type":"I64","supported":false,"n_tensors":1,"n_params":2,"bytes":16}]})");
  EXPECT_THAT(describe_text(*json), HasSubstr("hidden_size"));
}

TEST(HfFolder, ARealFolderHoldsWhatItsGgufHolds) {
  QR_SHARED_OR_SKIP(path, "data/models/stories260K/hf");
  const auto folder = open_model(path);
  ASSERT_TRUE(folder) << folder.error().message;
  const auto gguf = open_model(shared_path("data/models/stories260K/stories260K.gguf"));
  const HostWeight* ours = folder->find("model.layers.0.mlp.down_proj.weight");
  const HostWeight* theirs = gguf->find("blk.0.ffn_down.weight");
  ASSERT_TRUE(ours != nullptr && theirs != nullptr);
  EXPECT_EQ(ours->shape, theirs->shape);
  EXPECT_TRUE(std::equal(ours->data.begin(), ours->data.end(), theirs->data.begin(), theirs->data.end()));
}

}  // namespace
}  // namespace quire
