// EXAONE 4: norms behind the parts and on heads; where there are windows, three layers of four are behind one and the
// fourth does not turn.
#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 4;  // of local and global layers

class Exaone4 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string&, DecoderConfig& c) const override {
    QR_TRY_VOID(read_windows(file, kPeriod, c));
    c.is_still = c.is_local;
    c.is_still.flip();
    return {};
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_post_norms(load, layer);
    load_head_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "exaone4",
            ArchEntry{
                .summary = "EXAONE 4: norms behind the parts and on heads, windows",
                .hf = {.model_types = {"exaone4"},
                       .tensors = {{"model.layers.{}.post_attention_layernorm.weight",
                                    "blk.{}.post_attention_norm.weight"},
                                   {"model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
                                   {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
                                   {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"}},
                       .facts = facts},
                .load = &load_decoder<Exaone4>,
                .info = &decoder_info<Exaone4>});

}  // namespace
}  // namespace quire
