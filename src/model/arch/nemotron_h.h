// What Nemotron-H's models share: a layer is one part alone, a state (Mamba-2), attention whose heads do not turn, or a
// unit of squares without a gate, or experts that are such units beside a shared one.
#pragma once
#include <string>

#include "model/arch/mamba2.h"

namespace quire {

class NemotronH : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.activation = Activation::relu2;
    c.has_gate = false;
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.expert_groups_by_two = true;
    const auto n = static_cast<size_t>(c.n_layers);
    c.is_still.assign(n, true);
    c.has_unit.resize(n, false);
    c.is_state.resize(n, false);
    for (size_t l = 0; l < n; ++l) {
      c.attends.push_back(!c.is_state[l]);  // so far: without heads
      c.is_state[l] = c.is_state[l] && !c.has_unit[l];
    }
    return read_state_config(file, prefix, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    const bool is_unit = !layer.attends && !layer.keeps_state;
    load.vector(is_unit ? layer.ffn_norm : layer.attn_norm, "attn_norm.weight", config().n_embd);
    load_mixers(load, layer);
    if (layer.has_unit) load_feed_forward(load, layer);
  }
};

}  // namespace quire
