// Gains of Gemma 4's experts: in a file, and in one whose reader has taken them for factors of experts in NVFP4; and
// what adapters may add to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "io/model_file.h"
#include "model/adapter_builder.h"
#include "model/model.h"
#include "ops/no_ops.h"

namespace quire {
namespace {

std::string error_of(bool with_gains, const char* experts) {
  auto file = open_model("build/golden/models/gemma4-moe/model.gguf");
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return "";
  if (!with_gains) {
    std::erase_if(file->tensors, [](const HostWeight& w) { return w.name.ends_with("ffn_down_exps.scale"); });
  }
  for (HostWeight& weight : file->tensors) {
    if (weight.name.ends_with("ffn_down_exps.weight")) weight.format = find_weight_format(std::string_view(experts));
  }
  const auto info = model_info(*file, {find_kv_codec("f32"), find_kv_codec("f32")});
  return info ? "" : info.error().message;
}

TEST(Gemma4, GainsMayBeTheExpertsFactors) {
  EXPECT_EQ(error_of(true, "f32"), "");
  EXPECT_EQ(error_of(false, "f4_64"), "");
  EXPECT_THAT(error_of(false, "f32"), testing::HasSubstr("ffn_down_exps.scale"));
}

// Takes weights without a look at them.
class TakingOps final : public NoOps {
 public:
  std::string describe() const override { return "taking"; }
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes); }
  void sample(std::span<Sampled>, Tensor, std::span<const SampleParams>) override {}
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight*, Shard) override {
    Linear out;
    out.n_out = weight.n_rows();
    out.n_in = weight.n_cols();
    return out;
  }
  Result<Tensor> load_vector(const HostWeight&) override { return Tensor(); }
  Result<Buffer> load_low_rank(std::span<const LowRankSource>, std::span<LowRank>) override {
    return Buffer::allocate(64);
  }
};

// What an adapter adds to an expert's down has a share's gain too: unknown where it is part of a factor.
TEST(Gemma4, AdaptersAddToDownsWhoseGainsAreKnown) {
  constexpr int64_t kExperts = 4, kEmbd = 32, kFf = 64;
  for (const bool is_nvfp4 : {false, true}) {
    auto file = open_model("build/golden/models/gemma4-moe/model.gguf");
    ASSERT_TRUE(file) << file.error().message;
    file->meta.values["gemma4.expert_feed_forward_length"] = kFf;  // whole blocks
    const std::vector<std::byte> zeros(kExperts * 2 * kFf * kEmbd * 4);
    const auto replace = [&](HostWeight& weight, const char* format, std::vector<int64_t> shape) {
      weight.format = find_weight_format(std::string_view(format));
      weight.shape = std::move(shape);
      const int64_t bytes = weight.n_rows() * weight.format->row_bytes(weight.n_cols());
      weight.data = std::span(zeros).first(static_cast<size_t>(bytes));
    };
    for (HostWeight& weight : file->tensors) {
      if (weight.name.ends_with("ffn_gate_up_exps.weight")) replace(weight, "f32", {kExperts, 2 * kFf, kEmbd});
      if (weight.name.ends_with("ffn_down_exps.weight"))
        replace(weight, is_nvfp4 ? "f4_64" : "f32", {kExperts, kEmbd, kFf});
    }
    if (is_nvfp4)
      std::erase_if(file->tensors, [](const HostWeight& w) { return w.name.ends_with("ffn_down_exps.scale"); });
    TakingOps ops;
    const auto model = load_model(*file, ops, {find_kv_codec("f32"), find_kv_codec("f32")});
    ASSERT_TRUE(model) << model.error().message;
    const auto add = [&](const std::string& tensor, int64_t n_out, int64_t n_in) {
      AdapterBuilder builder(**model, ops, {}, int64_t{1} << 20);
      const auto place = builder.place_of(tensor);
      EXPECT_EQ(place.sites.size(), 1U) << tensor;
      const auto n_a = static_cast<size_t>(n_in), n_b = static_cast<size_t>(n_out);
      const auto added = builder.add(place, {1, std::vector<float>(n_a), std::vector<float>(n_b)}, 1, "\"a\"", "\"b\"");
      return added ? std::string() : added.error().message;
    };
    const std::string why =
        " adapters cannot add to this model's \"blk.1.ffn_down.2.weight\": the gains of its experts are part of their "
        "weights in NVFP4 and unknown by themselves";
    EXPECT_EQ(add("blk.1.ffn_down.2.weight", kEmbd, kFf), is_nvfp4 ? "tensor \"a\":" + why : "");
    EXPECT_EQ(add("blk.1.ffn_up.2.weight", kFf, kEmbd), "");
    EXPECT_EQ(add("blk.1.ffn_down.weight", kEmbd, 64), "") << "of the unit beside them";
  }
}

}  // namespace
}  // namespace quire
