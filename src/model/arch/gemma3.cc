// Gemma 3, text: Gemma 2's layers without soft caps and with norms on the heads of q and k; five layers behind a window
// to one without, which turn by different frequencies. Hugging Face stores norms' weights less one.
#include <cmath>

#include "model/decoder.h"

namespace quire {
namespace {

constexpr int kPeriod = 6;               // of local and global layers
constexpr int kLayersOf27B = 62;         // GGUF leaves the scale of this one's scores to the reader
constexpr double kLocalTheta = 10000.0;  // where the file does not say

class Gemma3 final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    const Metadata& meta = file.meta;
    c.activation = Activation::gelu_tanh;
    c.embed_scale = std::sqrt(static_cast<float>(c.n_embd));
    if (c.n_layers == kLayersOf27B && meta.find(prefix + "attention.scale") == nullptr) {
      c.attn_scale = 1.0F / std::sqrt(static_cast<float>(c.n_embd) / static_cast<float>(c.n_heads));
    }
    QR_TRY(const double scores, meta.get_double_or(prefix + "attn_logit_softcapping", 0.0, 1e6, 0.0));
    QR_TRY(const double logits, meta.get_double_or(prefix + "final_logit_softcapping", 0.0, 1e6, 0.0));
    c.attn_soft_cap = static_cast<float>(scores);
    c.logit_soft_cap = static_cast<float>(logits);
    QR_TRY(const double local, meta.get_double_or(prefix + "rope.freq_base_swa", 1.0, 1e12, kLocalTheta));
    c.rope_local = plain_rope(c.n_rope, local);
    return read_windows(file, kPeriod, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    load_post_norms(load, layer);
    load_head_norms(load, layer);
    load_attention(load, layer);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_activation", {"gelu_pytorch_tanh"}));
  hf.copy({"attn_logit_softcapping"}, "attn_logit_softcapping");
  hf.copy({"final_logit_softcapping"}, "final_logit_softcapping");
  QR_TRY(const double scalar, hf.get_double("query_pre_attn_scalar", 1e-6, 1e9));
  hf.set("attention.scale", 1.0 / std::sqrt(scalar), "query_pre_attn_scalar");
  hf.copy({"rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq"}, "rope.freq_base_swa");
  if (hf.find("layer_types") == nullptr) hf.copy({"sliding_window_pattern"}, "attention.sliding_window_pattern");
  return {};
}

QR_REGISTER(ArchEntry,
            "gemma3",
            ArchEntry{
                .summary = "Gemma 3, text: norms on heads, five layers of six behind a window",
                .hf = {.model_types = {"gemma3_text", "gemma3"},
                       .tensors = {{"model.norm.weight", "output_norm.weight", true},
                                   {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight", true},
                                   {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight", true},
                                   {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", true},
                                   {"model.layers.{}.post_attention_layernorm.weight",
                                    "blk.{}.post_attention_norm.weight", true},
                                   {"model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight", true},
                                   {"model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight",
                                    true}},
                       .facts = facts},
                .load = &load_decoder<Gemma3>,
                .info = &decoder_info<Gemma3>});

}  // namespace
}  // namespace quire
