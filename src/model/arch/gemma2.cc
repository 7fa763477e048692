// Gemma 2: norms before and after each part, every other layer behind a window, soft caps on scores and logits, an
// embedding scaled by √n_embd, scores scaled by a number of the model's own, GELU-gated feed forward. Hugging Face
// stores norms' weights less one.
#include <cmath>

#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 2;        // of local and global layers
constexpr int kLayersOf27B = 46;  // GGUF leaves the scale of this one's scores to the reader

class Gemma2 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.activation = Activation::gelu_tanh;
    c.embed_scale = std::sqrt(static_cast<float>(c.n_embd));
    if (c.n_layers == kLayersOf27B && file.meta.find(prefix + "attention.scale") == nullptr) {
      c.attn_scale = 1.0F / std::sqrt(static_cast<float>(c.n_embd) / static_cast<float>(c.n_heads));
    }
    QR_TRY(const double scores, file.meta.get_double_or(prefix + "attn_logit_softcapping", 0.0, 1e6, 50.0));
    QR_TRY(const double logits, file.meta.get_double_or(prefix + "final_logit_softcapping", 0.0, 1e6, 30.0));
    c.attn_soft_cap = static_cast<float>(scores);
    c.logit_soft_cap = static_cast<float>(logits);
    return read_windows(file, kPeriod, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_post_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_activation", {"gelu_pytorch_tanh"}));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (!hf.copy({key}, key)) hf.set(key, 0.0, key);  // null: none
  }
  QR_TRY(const double scalar, hf.get_double("query_pre_attn_scalar", 1e-6, 1e9));
  hf.set("attention.scale", 1.0 / std::sqrt(scalar), "query_pre_attn_scalar");
  return {};
}

QR_REGISTER(ArchEntry,
            "gemma2",
            ArchEntry{
                .summary = "Gemma 2: soft caps, every other layer behind a window",
                .hf = {.model_types = {"gemma2"},
                       .tensors = {{"model.norm.weight", "output_norm.weight", true},
                                   {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", true},
                                   {"model.layers.{}.post_attention_layernorm.weight",
                                    "blk.{}.post_attention_norm.weight", true},
                                   {"model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight", true},
                                   {"model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight",
                                    true}},
                       .facts = facts},
                .load = &load_decoder<Gemma2>,
                .info = &decoder_info<Gemma2>});

}  // namespace
}  // namespace quire
