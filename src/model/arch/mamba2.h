// What folders of Mamba-2's mixers share: their sizes and what their tensors are called.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {

// What a configuration calls the sizes.
struct Mamba2Keys {
  std::string_view conv, state, heads, head_dim, groups;
};

// Steps are cut at these; so far none is.
inline Status step_facts(const HfFacts& hf) {
  const MetaValue* limit = hf.find("time_step_limit");
  const auto* numbers = limit != nullptr ? std::get_if<std::vector<double>>(limit) : nullptr;
  if (numbers == nullptr || (numbers->size() == 2 && numbers->front() == 0 && numbers->back() >= 1e30)) return {};
  return fail(Code::unsupported, "key \"time_step_limit\": only 0 to infinity is supported");
}

inline Status mamba2_facts(HfFacts& hf, const Mamba2Keys& keys) {
  hf.copy({keys.conv}, "ssm.conv_kernel");
  hf.copy({keys.state}, "ssm.state_size");
  hf.copy({keys.heads}, "ssm.time_step_rank");
  hf.copy({keys.groups}, "ssm.group_count");
  QR_TRY(const int64_t n_heads, hf.get_int(keys.heads, 1, 4096));
  QR_TRY(const int64_t dim, hf.get_int(keys.head_dim, 1, 1 << 20));
  hf.set("ssm.inner_size", n_heads * dim, keys.head_dim);
  return step_facts(hf);
}

// Of a mixer within a layer ("model.layers.{}.mamba").
inline std::vector<NameRule> mamba2_mixer_tensors(std::vector<NameRule> own) {
  const std::vector<NameRule> shared = {
      {"model.layers.{}.mamba.in_proj.weight", "blk.{}.ssm_in.weight"},
      {"model.layers.{}.mamba.in_proj.bias", "blk.{}.ssm_in.bias"},
      {.theirs = "model.layers.{}.mamba.conv1d.weight", .ours = "blk.{}.ssm_conv1d.weight", .reshape = without_middle},
      {"model.layers.{}.mamba.conv1d.bias", "blk.{}.ssm_conv1d.bias"},
      {"model.layers.{}.mamba.dt_bias", "blk.{}.ssm_dt.bias"},
      {.theirs = "model.layers.{}.mamba.A_log", .ours = "blk.{}.ssm_a", .reshape = minus_exp},
      {.theirs = "model.layers.{}.mamba.D", .ours = "blk.{}.ssm_d", .reshape = as_column},
      {"model.layers.{}.mamba.norm.weight", "blk.{}.ssm_norm.weight"},
      {"model.layers.{}.mamba.out_proj.weight", "blk.{}.ssm_out.weight"},
      {"model.layers.{}.mamba.out_proj.bias", "blk.{}.ssm_out.bias"}};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

// Of layers that are one mixer ("backbone.layers.{}.mixer") behind a norm.
inline std::vector<NameRule> mamba2_tensors(std::vector<NameRule> own) {
  const std::vector<NameRule> shared = {
      {"backbone.embeddings.weight", "token_embd.weight"},
      {"backbone.norm_f.weight", "output_norm.weight"},
      {"backbone.layers.{}.norm.weight", "blk.{}.attn_norm.weight"},
      {"backbone.layers.{}.mixer.in_proj.weight", "blk.{}.ssm_in.weight"},
      {"backbone.layers.{}.mixer.in_proj.bias", "blk.{}.ssm_in.bias"},
      {.theirs = "backbone.layers.{}.mixer.conv1d.weight",
       .ours = "blk.{}.ssm_conv1d.weight",
       .reshape = without_middle},
      {"backbone.layers.{}.mixer.conv1d.bias", "blk.{}.ssm_conv1d.bias"},
      {"backbone.layers.{}.mixer.dt_bias", "blk.{}.ssm_dt.bias"},
      {.theirs = "backbone.layers.{}.mixer.A_log", .ours = "blk.{}.ssm_a", .reshape = minus_exp},
      {.theirs = "backbone.layers.{}.mixer.D", .ours = "blk.{}.ssm_d", .reshape = as_column},
      {"backbone.layers.{}.mixer.norm.weight", "blk.{}.ssm_norm.weight"},
      {"backbone.layers.{}.mixer.out_proj.weight", "blk.{}.ssm_out.weight"},
      {"backbone.layers.{}.mixer.out_proj.bias", "blk.{}.ssm_out.bias"}};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

}  // namespace quire
