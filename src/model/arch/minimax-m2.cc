// MiniMax M2: experts by sigmoids with a bias of the choice, norms over all of q and of k, a part of a head turns.
#include "model/decoder.h"

namespace quire {
namespace {

class MiniMaxM2 final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.routing.scoring = Routing::Scoring::sigmoid;
    c.routing.normalised = true;
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_row_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"rotary_dim"}, "rope.dimension_count");
  return hf.require("hidden_act", {"silu"});
}

QR_REGISTER(
    ArchEntry,
    "minimax-m2",
    ArchEntry{
        .summary = "MiniMax M2: experts by sigmoids, norms over all of q and of k",
        .hf = {.model_types = {"minimax_m2"},
               .tensors = {{"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                           {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
                           {"model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
                           {"model.layers.{}.block_sparse_moe.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w1.weight", "blk.{}.ffn_gate.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w3.weight", "blk.{}.ffn_up.{}.weight"},
                           {"model.layers.{}.block_sparse_moe.experts.{}.w2.weight", "blk.{}.ffn_down.{}.weight"}},
               .facts = facts},
        .load = &load_decoder<MiniMaxM2>,
        .info = &decoder_info<MiniMaxM2>});

}  // namespace
}  // namespace quire
