// What Mamba and Mamba 2 share: layers that keep a state and have nothing else.
#pragma once
#include <string>

#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {

class StatesAlone : public Decoder {
 protected:
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load.vector(layer.attn_norm, "attn_norm.weight", config().n_embd);
    load_mixers(load, layer);
  }
};

// Fails (Code::unsupported) where a file says that there are heads of attention.
inline Status check_no_heads(const ModelFile& file, const std::string& prefix, const DecoderConfig& c) {
  if (c.n_heads == 0) return {};
  return fail(Code::unsupported, "key " + file.meta.shown(prefix + "attention.head_count") + ": must be 0, is " +
                                     std::to_string(c.n_heads));
}

// Of a folder's configuration, which names no positions: a state takes a sequence of any length.
inline Status states_alone_facts(HfFacts& hf) {
  constexpr int64_t kAnyLength = 1 << 20;
  QR_TRY_VOID(hf.require("hidden_act", {"silu", "swish"}));
  hf.set("attention.head_count", int64_t{0}, "num_attention_heads");
  hf.set("feed_forward_length", int64_t{0}, "intermediate_size");
  hf.set("context_length", kAnyLength, "max_position_embeddings");
  hf.copy({"layer_norm_epsilon"}, "attention.layer_norm_rms_epsilon");
  return {};
}

}  // namespace quire
