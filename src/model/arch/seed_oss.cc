// Seed-OSS: Llama's shape with biases on q, k and v; GGUF names the second norm of a layer after the first part.
#include "model/decoder.h"

namespace quire {
namespace {

class SeedOss final : public Decoder {
 protected:
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load.vector(layer.attn_norm, "attn_norm.weight", config().n_embd);
    load.vector(layer.ffn_norm, "post_attention_norm.weight", config().n_embd);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) { return hf.require("hidden_act", {"silu"}); }

QR_REGISTER(ArchEntry,
            "seed_oss",
            ArchEntry{.summary = "Seed-OSS: Llama's shape with biases",
                      .hf = {.model_types = {"seed_oss"},
                             .tensors = {{"model.layers.{}.post_attention_layernorm.weight",
                                          "blk.{}.post_attention_norm.weight"}},
                             .facts = facts},
                      .load = &load_decoder<SeedOss>,
                      .info = &decoder_info<SeedOss>});

}  // namespace
}  // namespace quire
