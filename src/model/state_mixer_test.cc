// Sizes of states out of untrusted facts, and what they claim of the cache.
#include "model/state_mixer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

constexpr const char* kFolder = "build/golden/models/granitehybrid";

ModelFile good_file() {
  ModelFile file;
  file.path = "m.gguf";
  auto& meta = file.meta.values;
  meta["granitehybrid.ssm.conv_kernel"] = int64_t{4};
  meta["granitehybrid.ssm.state_size"] = int64_t{24};
  meta["granitehybrid.ssm.inner_size"] = int64_t{64};
  meta["granitehybrid.ssm.time_step_rank"] = int64_t{4};
  meta["granitehybrid.ssm.group_count"] = int64_t{2};
  return file;
}

std::string error_with(const std::string& key, int64_t value) {
  ModelFile file = good_file();
  file.meta.values["granitehybrid.ssm." + key] = value;
  DecoderConfig config;
  const Status read = read_state_config(file, "granitehybrid.", config);
  return read ? "read" : read.error().message;
}

TEST(StateConfig, ReadsSizes) {
  DecoderConfig config;
  ASSERT_TRUE(read_state_config(good_file(), "granitehybrid.", config));
  const StateConfig& c = config.state;
  EXPECT_EQ(c.n_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.n_inner(), 64);
  EXPECT_EQ(c.n_conv(), 64 + 2 * 2 * 24);
}

TEST(StateConfig, RefusesSizesThatCannotBe) {
  EXPECT_THAT(error_with("state_size", 0), HasSubstr("granitehybrid.ssm.state_size"));
  EXPECT_THAT(error_with("state_size", 257), HasSubstr("257"));
  EXPECT_THAT(error_with("conv_kernel", 0), HasSubstr("granitehybrid.ssm.conv_kernel"));
  EXPECT_THAT(error_with("conv_kernel", 17), HasSubstr("17"));
  EXPECT_THAT(
      error_with("time_step_rank", 5),
      HasSubstr(
          "\"granitehybrid.ssm.time_step_rank\": must divide \"granitehybrid.ssm.inner_size\", which is 64, is 5"));
  EXPECT_THAT(error_with("group_count", 3), HasSubstr("which is 4, is 3"));
  EXPECT_THAT(error_with("inner_size", int64_t{1} << 40), HasSubstr("granitehybrid.ssm.inner_size"));
  EXPECT_THAT(error_with("time_step_rank", -1), HasSubstr("granitehybrid.ssm.time_step_rank"));
}

// A folder with one fact changed; what the error says of it.
std::string folder_error(const std::string& key, MetaValue value) {
  auto folder = open_model(kFolder);
  EXPECT_TRUE(folder);
  folder->meta.values["hf." + key] = std::move(value);
  const auto info = model_info(*folder, {find_kv_codec("f32"), find_kv_codec("f32")});
  return info ? "read" : info.error().message;
}

TEST(StateConfig, AFolderIsRefusedByItsOwnKeys) {
  using Kinds = std::vector<std::string>;
  EXPECT_THAT(folder_error("layer_types", Kinds{"linear_attention", "full_attention"}),
              HasSubstr("key \"layer_types\": must have 3 entries, has 2"));
  EXPECT_THAT(folder_error("layer_types", Kinds{"mamba", "attention", "rwkv"}), HasSubstr("\"rwkv\" is not supported"));
  EXPECT_EQ(folder_error("layer_types", Kinds{"mamba", "attention", "mamba"}), "read");
  EXPECT_THAT(folder_error("mamba_d_state", int64_t{0}), HasSubstr("\"mamba_d_state\""));
  EXPECT_THAT(folder_error("mamba_d_conv", int64_t{40}), HasSubstr("\"mamba_d_conv\""));
  EXPECT_THAT(folder_error("mamba_n_heads", int64_t{7}), HasSubstr("mamba_n_heads must be"));
  EXPECT_THAT(folder_error("mamba_n_groups", int64_t{3}),
              HasSubstr("\"mamba_n_groups\": must divide \"mamba_n_heads\""));
  EXPECT_THAT(folder_error("mamba_d_head", int64_t{15}), HasSubstr("which is 64, is 60"));
  EXPECT_THAT(folder_error("position_embedding_type", std::string("alibi")), HasSubstr("\"alibi\" is not supported"));
  EXPECT_THAT(folder_error("time_step_limit", std::vector<double>{0.0, 0.1}), HasSubstr("\"time_step_limit\""));
}

TEST(StateConfig, StatesAreClaimedOncePerLayer) {
  const auto file = open_model(kFolder);
  ASSERT_TRUE(file);
  const auto info = model_info(*file, {find_kv_codec("f16"), find_kv_codec("f16")});
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->n_state_layers, 2);
  // Three rows of 112 columns, and four heads of 16 by 24 numbers.
  EXPECT_EQ(info->kv_layout.state_bytes(), 2 * (3 * 112 * 4 + 4 * 16 * 24 * 4));
  EXPECT_EQ(info->kv_layout.token_bytes(), 2 * 8 * 2 * 2) << "of one layer";
}

}  // namespace
}  // namespace quire
