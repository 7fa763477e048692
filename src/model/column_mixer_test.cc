// Sizes of states whose columns have steps of their own, out of untrusted facts.
#include "model/column_mixer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

ModelFile good_file() {
  ModelFile file;
  file.path = "m.gguf";
  auto& meta = file.meta.values;
  meta["mamba.ssm.conv_kernel"] = int64_t{4};
  meta["mamba.ssm.state_size"] = int64_t{16};
  meta["mamba.ssm.inner_size"] = int64_t{96};
  meta["mamba.ssm.time_step_rank"] = int64_t{3};
  return file;
}

std::string error_with(const std::string& key, MetaValue value) {
  ModelFile file = good_file();
  file.meta.values["mamba.ssm." + key] = std::move(value);
  DecoderConfig config;
  const Status read = read_column_config(file, "mamba.", config);
  return read ? "read" : read.error().message;
}

TEST(ColumnConfig, ReadsSizesOfOneHead) {
  DecoderConfig config;
  ASSERT_TRUE(read_column_config(good_file(), "mamba.", config));
  const StateConfig& c = config.state;
  EXPECT_EQ(c.n_inner(), 96);
  EXPECT_EQ(c.n_conv(), 96);
  EXPECT_EQ(c.n_step_rank, 3);
  EXPECT_FALSE(c.plain_part_norms);
  EXPECT_EQ(c.norm_eps, 0.0F);
}

TEST(ColumnConfig, RefusesSizesThatCannotBe) {
  EXPECT_THAT(error_with("state_size", int64_t{257}), HasSubstr("mamba.ssm.state_size"));
  EXPECT_THAT(error_with("conv_kernel", int64_t{17}), HasSubstr("mamba.ssm.conv_kernel"));
  EXPECT_THAT(error_with("time_step_rank", int64_t{0}), HasSubstr("mamba.ssm.time_step_rank"));
  EXPECT_THAT(error_with("inner_size", int64_t{1} << 40), HasSubstr("mamba.ssm.inner_size"));
  EXPECT_THAT(error_with("norm_epsilon", 2.0), HasSubstr("mamba.ssm.norm_epsilon"));
}

}  // namespace
}  // namespace quire
