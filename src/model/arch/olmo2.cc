// OLMo 2 and 3: norms behind the parts only, norms over all of q and of k; OLMo 3 has three layers of four behind a
// window, whose positions are not stretched.
#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;  // of local and global layers

class Olmo2 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string&, DecoderConfig& c) const override {
    c.rope_local = plain_rope(c.n_rope, c.rope_theta);
    return read_windows(file, kPeriod, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_post_norms(load, layer);
    load_row_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "olmo2",
            ArchEntry{
                .summary = "OLMo 2 and 3: norms behind the parts, norms over all of q and of k",
                .hf = {.model_types = {"olmo2", "olmo3"},
                       .tensors = {{"model.layers.{}.post_attention_layernorm.weight",
                                    "blk.{}.post_attention_norm.weight"},
                                   {"model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
                                   {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                   {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                       .facts = facts},
                .load = &load_decoder<Olmo2>,
                .info = &decoder_info<Olmo2>});

}  // namespace
}  // namespace quire
