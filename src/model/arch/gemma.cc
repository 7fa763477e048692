// Gemma: Llama's shape with a gate of GELU and a scaled embedding. Hugging Face stores norms' weights less one.
#include <cmath>

#include "model/decoder.h"

namespace quire {
namespace {

class Gemma final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.activation = Activation::gelu_tanh;
    c.embed_scale = std::sqrt(static_cast<float>(c.n_embd));
    return {};
  }
};

// Configurations of the first release say "gelu" and mean the other.
Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_activation", {"gelu_pytorch_tanh"}));
  return hf.require("hidden_act", {"gelu", "gelu_pytorch_tanh"});
}

QR_REGISTER(ArchEntry,
            "gemma",
            ArchEntry{
                .summary = "Gemma: Llama's shape, gates of GELU, a scaled embedding",
                .hf = {.model_types = {"gemma"},
                       .tensors = {{"model.norm.weight", "output_norm.weight", true},
                                   {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", true},
                                   {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight", true}},
                       .facts = facts},
                .load = &load_decoder<Gemma>,
                .info = &decoder_info<Gemma>});

}  // namespace
}  // namespace quire
