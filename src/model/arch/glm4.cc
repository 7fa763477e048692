// GLM 4 (0414 and GLM-Z1): norms before and behind the parts, half of a head turns in pairs side by side, gate and up
// in one matrix.
#include "model/decoder.h"

namespace quire {
namespace {

class Glm4 final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.rope_pairs = RopePairs::interleaved;
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    const DecoderConfig& c = config();
    load_norms(load, layer);
    load_post_norms(load, layer);
    if (load.has("attn_qkv.weight")) {
      load.linear(layer.qkv, "attn_qkv", q_dim() + 2 * kv_dim(), c.n_embd);
      load.linear(layer.attn_out, "attn_output", c.n_embd, q_dim());
    } else {
      load_attention(load, layer);
    }
    load.halves(layer.gate_up, "ffn_up", c.n_ff, c.n_embd);
    load.linear(layer.down, "ffn_down", c.n_embd, c.n_ff);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "glm4",
            ArchEntry{.summary = "GLM 4, dense: norms before and behind, half a head turns",
                      .hf = {.model_types = {"glm4"},
                             .tensors = {{"model.layers.{}.post_self_attn_layernorm.weight",
                                          "blk.{}.post_attention_norm.weight"},
                                         {"model.layers.{}.post_mlp_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
                                         {"model.layers.{}.mlp.gate_up_proj.weight", "blk.{}.ffn_up.weight"}},
                             .facts = facts},
                      .load = &load_decoder<Glm4>,
                      .info = &decoder_info<Glm4>});

}  // namespace
}  // namespace quire
