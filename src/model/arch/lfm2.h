// What LFM2's models share, dense or with experts: most layers are a short convolution between two gates, the others
// attention with norms on the heads of q and k.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {

class Lfm2 : public NormedHeads {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    return c.is_state.empty() ? Status() : read_conv_config(file, prefix, c);
  }
};

// Layers that are no attention, where the folder does not list kinds.
inline Status lfm2_facts(HfFacts& hf) {
  constexpr std::string_view kAttention = "full_attn_idxs";
  hf.copy({"conv_L_cache"}, "shortconv.l_cache");
  if (hf.find("layer_types") != nullptr) return {};
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  const MetaValue* named = hf.find(kAttention);
  const auto* numbers = named != nullptr ? std::get_if<std::vector<int64_t>>(named) : nullptr;
  if (numbers == nullptr) return {};
  std::vector<int64_t> states;
  for (int64_t l = 0; l < n_layers; ++l) states.push_back(std::ranges::count(*numbers, l) == 0 ? 1 : 0);
  hf.set("attention.recurrent_layers", std::move(states), kAttention);
  return {};
}

inline std::vector<NameRule> lfm2_tensors(std::vector<NameRule> own) {
  const std::vector<NameRule> shared = {
      {"model.embedding_norm.weight", "token_embd_norm.weight"},
      {"model.layers.{}.operator_norm.weight", "blk.{}.attn_norm.weight"},
      {"model.layers.{}.ffn_norm.weight", "blk.{}.ffn_norm.weight"},
      {"model.layers.{}.self_attn.out_proj.weight", "blk.{}.attn_output.weight"},
      {"model.layers.{}.self_attn.q_layernorm.weight", "blk.{}.attn_q_norm.weight"},
      {"model.layers.{}.self_attn.k_layernorm.weight", "blk.{}.attn_k_norm.weight"},
      {.theirs = "model.layers.{}.conv.conv.weight", .ours = "blk.{}.shortconv.conv.weight", .reshape = without_middle},
      {"model.layers.{}.conv.conv.bias", "blk.{}.shortconv.conv.bias"},
      {"model.layers.{}.conv.in_proj.weight", "blk.{}.shortconv.in_proj.weight"},
      {"model.layers.{}.conv.in_proj.bias", "blk.{}.shortconv.in_proj.bias"},
      {"model.layers.{}.conv.out_proj.weight", "blk.{}.shortconv.out_proj.weight"},
      {"model.layers.{}.conv.out_proj.bias", "blk.{}.shortconv.out_proj.bias"},
      {"model.layers.{}.feed_forward.w1.weight", "blk.{}.ffn_gate.weight"},
      {"model.layers.{}.feed_forward.w3.weight", "blk.{}.ffn_up.weight"},
      {"model.layers.{}.feed_forward.w2.weight", "blk.{}.ffn_down.weight"}};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

}  // namespace quire
