// What folders of Mamba-1's mixers share: their sizes and what their tensors are called.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "model/column_mixer.h"
#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {

// What a configuration calls the sizes.
struct MambaKeys {
  std::string_view conv, state, rank, expand;
  std::string_view inner = {};  // in place of expand · hidden_size where it is there; empty: it never is
};

inline Status mamba_facts(HfFacts& hf, const MambaKeys& keys) {
  hf.copy({keys.conv}, "ssm.conv_kernel");
  hf.copy({keys.state}, "ssm.state_size");
  QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
  QR_TRY(const int64_t expand, hf.get_int_or(keys.expand, 1, 64, 2));
  hf.set("ssm.inner_size", expand * n_embd, keys.expand);
  if (!keys.inner.empty() && hf.find(keys.inner) != nullptr) hf.copy({keys.inner}, "ssm.inner_size");
  hf.set("ssm.time_step_rank", (n_embd + 15) / 16, keys.rank);  // "auto"
  const MetaValue* rank = hf.find(keys.rank);
  if (rank != nullptr && *rank != MetaValue(std::string("auto"))) hf.copy({keys.rank}, "ssm.time_step_rank");
  return {};
}

// What a mixer's tensors are called: x_proj, dt_proj, dt_proj's bias, in_proj, in_proj's bias, conv1d, its bias, A_log,
// D, out_proj, its bias.
using MambaNames = std::array<std::string_view, 11>;
inline constexpr MambaNames kMambaAlone = {"backbone.layers.{}.mixer.x_proj.weight",
                                           "backbone.layers.{}.mixer.dt_proj.weight",
                                           "backbone.layers.{}.mixer.dt_proj.bias",
                                           "backbone.layers.{}.mixer.in_proj.weight",
                                           "backbone.layers.{}.mixer.in_proj.bias",
                                           "backbone.layers.{}.mixer.conv1d.weight",
                                           "backbone.layers.{}.mixer.conv1d.bias",
                                           "backbone.layers.{}.mixer.A_log",
                                           "backbone.layers.{}.mixer.D",
                                           "backbone.layers.{}.mixer.out_proj.weight",
                                           "backbone.layers.{}.mixer.out_proj.bias"};
inline constexpr MambaNames kMambaWithin = {"model.layers.{}.mamba.x_proj.weight",
                                            "model.layers.{}.mamba.dt_proj.weight",
                                            "model.layers.{}.mamba.dt_proj.bias",
                                            "model.layers.{}.mamba.in_proj.weight",
                                            "model.layers.{}.mamba.in_proj.bias",
                                            "model.layers.{}.mamba.conv1d.weight",
                                            "model.layers.{}.mamba.conv1d.bias",
                                            "model.layers.{}.mamba.A_log",
                                            "model.layers.{}.mamba.D",
                                            "model.layers.{}.mamba.out_proj.weight",
                                            "model.layers.{}.mamba.out_proj.bias"};

inline std::vector<NameRule> mamba_tensors(const MambaNames& theirs, std::vector<NameRule> own) {
  constexpr MambaNames kOurs = {"blk.{}.ssm_x.weight",    "blk.{}.ssm_dt.weight", "blk.{}.ssm_dt.bias",
                                "blk.{}.ssm_in.weight",   "blk.{}.ssm_in.bias",   "blk.{}.ssm_conv1d.weight",
                                "blk.{}.ssm_conv1d.bias", "blk.{}.ssm_a",         "blk.{}.ssm_d",
                                "blk.{}.ssm_out.weight",  "blk.{}.ssm_out.bias"};
  for (size_t i = 0; i < kOurs.size(); ++i) {
    NameRule& rule = own.emplace_back(NameRule{.theirs = theirs[i], .ours = kOurs[i]});
    if (kOurs[i] == "blk.{}.ssm_conv1d.weight") rule.reshape = without_middle;
    if (kOurs[i] == "blk.{}.ssm_a") rule.reshape = minus_exp;
  }
  return own;
}

}  // namespace quire
