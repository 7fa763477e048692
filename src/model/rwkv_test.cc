// What files of RWKV say of their layers is checked by its key before anything is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/model_file.h"
#include "model/model.h"

namespace quire {
namespace {

using testing::HasSubstr;

// What model_info says of a golden file with this fact in place of its own.
std::string error_with(const std::string& arch, const std::string& key, MetaValue value) {
  auto file = open_model("build/golden/models/" + arch + "/model.gguf");
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return "";
  file->meta.values[arch + "." + key] = std::move(value);
  const auto info = model_info(*file, {find_kv_codec("f32"), find_kv_codec("f32")});
  return info ? "read" : info.error().message;
}

TEST(Rwkv7, IsRefusedByItsOwnKeys) {
  const auto error = [](const std::string& key, MetaValue value) { return error_with("rwkv7", key, std::move(value)); };
  EXPECT_EQ(error("token_shift_count", int64_t{2}), "read");
  EXPECT_THAT(error("token_shift_count", int64_t{1}), HasSubstr("\"rwkv7.token_shift_count\""));
  EXPECT_THAT(error("wkv.head_size", int64_t{0}), HasSubstr("\"rwkv7.wkv.head_size\""));
  EXPECT_THAT(error("wkv.head_size", int64_t{257}), HasSubstr("\"rwkv7.wkv.head_size\""));
  EXPECT_THAT(error("wkv.head_size", int64_t{5}),
              HasSubstr("key \"rwkv7.wkv.head_size\": must divide \"rwkv7.embedding_length\", which is 32, is 5"));
  EXPECT_THAT(error("attention.head_count", int64_t{2}),
              HasSubstr("model.gguf: key \"rwkv7.attention.head_count\": must be 0, is 2"));
  EXPECT_THAT(
      error("attention.decay_lora_rank", int64_t{9}),
      HasSubstr("key \"rwkv7.attention.decay_lora_rank\": is 9, and tensor \"blk.0.time_mix_w1.weight\" has 8 rows"));
  EXPECT_THAT(error("attention.iclr_lora_rank", int64_t{1} << 40), HasSubstr("\"rwkv7.attention.iclr_lora_rank\""));
  EXPECT_THAT(error("attention.value_residual_mix_lora_rank", int64_t{5}),
              HasSubstr("is 5, and tensor \"blk.1.time_mix_v1.weight\" has 6 rows"));
  EXPECT_THAT(error("attention.gate_lora_rank", int64_t{0}), HasSubstr("\"rwkv7.attention.gate_lora_rank\": is 0"));
}

TEST(Rwkv6, IsRefusedByItsOwnKeys) {
  const auto error = [](const std::string& key, MetaValue value) { return error_with("rwkv6", key, std::move(value)); };
  EXPECT_EQ(error("rescale_every_n_layers", int64_t{0}), "read");
  EXPECT_THAT(error("rescale_every_n_layers", int64_t{-1}), HasSubstr("\"rwkv6.rescale_every_n_layers\""));
  EXPECT_THAT(error("wkv.head_size", int64_t{3}), HasSubstr("\"rwkv6.wkv.head_size\": must divide"));
  EXPECT_THAT(error("time_mix_extra_dim", int64_t{5}),
              HasSubstr("is 5, and tensor \"blk.0.time_mix_w1.weight\" has 4 rows for each part"));
  EXPECT_THAT(error("time_decay_extra_dim", int64_t{4}),
              HasSubstr("is 4, and tensor \"blk.0.time_mix_decay_w1.weight\" has 8 rows"));
}

// Not one of another architecture, whose layers would have nothing to do.
TEST(Rwkv7, OthersWithoutHeadsHaveNoUnits) {
  auto file = open_model("build/golden/models/mamba2/model.gguf");
  ASSERT_TRUE(file) << file.error().message;
  file->meta.values["mamba2.feed_forward_length"] = int64_t{64};
  file->meta.values["mamba2.wkv.head_size"] = int64_t{16};
  const auto info = model_info(*file, {find_kv_codec("f32"), find_kv_codec("f32")});
  ASSERT_FALSE(info);
  EXPECT_THAT(info.error().message, HasSubstr("key \"mamba2.attention.head_count\": must be 1 at least, is 0"));
}

TEST(Rwkv7, KeepsTwoRowsAndAMatrixAHead) {
  const auto file = open_model("build/golden/models/rwkv7/model.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const auto info = model_info(*file, {find_kv_codec("f32"), find_kv_codec("f32")});
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->kv_layout.token_bytes(), 0);
  EXPECT_EQ(info->kv_layout.state_bytes(), 3 * (2 * 32 + 2 * 16 * 16) * 4);
  EXPECT_EQ(info->n_state_layers, 3);
  EXPECT_EQ(info->n_attention_layers, 0);
}

}  // namespace
}  // namespace quire
