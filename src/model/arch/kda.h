// What models share whose delta rule lets every component of a key fade by itself: Kimi Linear and Ling 3. Other layers
// have latent attention.
#pragma once
#include <string>

#include "model/decoder.h"
#include "model/hf_reshape.h"
#include "ops/state_sizes.h"

namespace quire {

class KeyDelta : public Decoder {
 protected:
  bool takes_latent() const override { return true; }

  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    if (file.meta.find(prefix + "expert_gating_func") == nullptr) c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.expert_groups_by_two = true;
    if (c.is_state.empty()) return {};
    QR_TRY(const int64_t n_taps, file.meta.get_int(prefix + "ssm.conv_kernel", 1, kMostTaps));
    QR_TRY(const int64_t dim, file.meta.get_int(prefix + "kda.head_dim", 1, kMostStateDim));
    c.state.n_taps = static_cast<int>(n_taps);
    c.state.head_dim = c.state.state_dim = static_cast<int>(dim);
    c.state.n_heads = c.state.n_head_groups = c.n_heads;
    c.state.has_delta_rule = true;
    return {};
  }

  // The convolutions, and the sizes of the rule.
  void load_key_delta(WeightLoader& load, StateMixer& mixer) const {
    const StateConfig& c = config().state;
    const int64_t n = c.n_inner();
    const WeightLoader::Part convs[] = {
        {"ssm_conv1d_q.weight", n}, {"ssm_conv1d_k.weight", n}, {"ssm_conv1d_v.weight", n}};
    load.load_transposed(mixer.conv.w, convs, c.n_taps);
    DeltaParams& p = mixer.delta;
    p.n_heads = p.n_key_heads = c.n_heads;
    p.k_dim = p.v_dim = c.head_dim;
    p.fades_by_component = true;
  }

  // out [n, n_embd]: what a layer with the rule finds of the rows.
  virtual void run_delta(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const = 0;

  void run_layer(const DecoderLayer& layer,
                 NormedRows& in,
                 Tensor delta,
                 const Rotation& rotation,
                 const Pass& pass) const override {
    if (!layer.keeps_state) return Decoder::run_layer(layer, in, delta, rotation, pass);
    in.w = layer.attn_norm;
    run_delta(delta, layer, in, pass);
    in.delta = delta;
    in.w = layer.ffn_norm;
    feed_forward(delta, layer, in, pass);
  }
};

// Folders have two names for each count of experts.
inline void copy_expert_counts(HfFacts& hf) {
  hf.copy({"num_experts", "num_local_experts"}, "expert_count");
  hf.copy({"num_experts_per_token", "num_experts_per_tok"}, "expert_used_count");
  hf.copy({"num_shared_experts", "n_shared_experts"}, "expert_shared_count");
  hf.copy({"num_expert_group", "n_group"}, "expert_group_count");
}

}  // namespace quire
