// Falcon 7B, 11B and 40B: layer norms, both parts of a layer from the same rows, behind one norm or one each, units
// without a gate. Hugging Face has q, k and v together, KV head by KV head, GGUF one after the other.
#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {
namespace {

class Falcon final : public Decoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.norm = NormKind::layer;
    c.activation = Activation::gelu_erf;
    c.has_gate = false;
    c.is_parallel = true;
    return {};
  }
  // Of two norms the second is attention's.
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load_norms(load, layer);
    if (load.has("attn_norm_2.weight")) {
      std::swap(layer.attn_norm, layer.ffn_norm);
      std::swap(layer.attn_norm_bias, layer.ffn_norm_bias);
      load.vector(layer.attn_norm, "attn_norm_2.weight", config().n_embd);
      load.vector(layer.attn_norm_bias, "attn_norm_2.bias", config().n_embd);
    }
    load.linear(layer.qkv, "attn_qkv", q_dim() + 2 * kv_dim(), config().n_embd);
    load.linear(layer.attn_out, "attn_output", config().n_embd, q_dim());
    load_feed_forward(load, layer);
  }
};

// What the two configurations say of KV heads: "new_decoder_architecture" counts them, "multi_query" has one.
Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require_bool("alibi", false));
  QR_TRY_VOID(hf.require_bool("parallel_attn", true));
  QR_TRY_VOID(hf.require("activation", {"gelu"}));
  QR_TRY(const int64_t n_embd, hf.get_int("hidden_size", 1, 1 << 20));
  QR_TRY(const bool counted, hf.get_bool_or("new_decoder_architecture", false));
  QR_TRY(const bool one, hf.get_bool_or("multi_query", true));
  hf.set("feed_forward_length", 4 * n_embd, "hidden_size");
  if (hf.find("ffn_hidden_size") != nullptr) hf.copy({"ffn_hidden_size"}, "feed_forward_length");
  if (hf.find("max_position_embeddings") == nullptr) hf.set("context_length", int64_t{2048}, "max_position_embeddings");
  hf.copy({"layer_norm_epsilon"}, "attention.layer_norm_epsilon");
  if (counted) hf.copy({"num_kv_heads"}, "attention.head_count_kv");
  if (!counted && one) hf.set("attention.head_count_kv", int64_t{1}, "multi_query");
  if (!counted && !one) hf.copy({"num_attention_heads"}, "attention.head_count_kv");
  return {};
}

Status group_by_group(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  QR_TRY(const int64_t n_heads, facts.get_int("hf.num_attention_heads", 1, 4096));
  QR_TRY(const bool counted, facts.get_bool_or("hf.new_decoder_architecture", false));
  QR_TRY(const bool one, facts.get_bool_or("hf.multi_query", true));
  QR_TRY(const int64_t n_kv_heads, facts.get_int_or("hf.num_kv_heads", 1, n_heads, n_heads));
  return kv_heads_apart(theirs, n_heads, counted ? n_kv_heads : one ? 1 : n_heads, ours, file);
}

QR_REGISTER(ArchEntry,
            "falcon",
            ArchEntry{.summary = "Falcon: parallel parts, layer norms, units without a gate",
                      .hf = {.model_types = {"falcon"},
                             .tensors = {{"transformer.word_embeddings.weight", "token_embd.weight"},
                                         {"transformer.ln_f.weight", "output_norm.weight"},
                                         {"transformer.ln_f.bias", "output_norm.bias"},
                                         {"transformer.h.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
                                         {"transformer.h.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
                                         {"transformer.h.{}.ln_mlp.weight", "blk.{}.attn_norm.weight"},
                                         {"transformer.h.{}.ln_mlp.bias", "blk.{}.attn_norm.bias"},
                                         {"transformer.h.{}.ln_attn.weight", "blk.{}.attn_norm_2.weight"},
                                         {"transformer.h.{}.ln_attn.bias", "blk.{}.attn_norm_2.bias"},
                                         {.theirs = "transformer.h.{}.self_attention.query_key_value.weight",
                                          .ours = "blk.{}.attn_qkv.weight",
                                          .reshape = group_by_group},
                                         {.theirs = "transformer.h.{}.self_attention.query_key_value.bias",
                                          .ours = "blk.{}.attn_qkv.bias",
                                          .reshape = group_by_group},
                                         {"transformer.h.{}.self_attention.dense.weight", "blk.{}.attn_output.weight"},
                                         {"transformer.h.{}.self_attention.dense.bias", "blk.{}.attn_output.bias"},
                                         {"transformer.h.{}.mlp.dense_h_to_4h.weight", "blk.{}.ffn_up.weight"},
                                         {"transformer.h.{}.mlp.dense_h_to_4h.bias", "blk.{}.ffn_up.bias"},
                                         {"transformer.h.{}.mlp.dense_4h_to_h.weight", "blk.{}.ffn_down.weight"},
                                         {"transformer.h.{}.mlp.dense_4h_to_h.bias", "blk.{}.ffn_down.bias"}},
                             .facts = facts},
                      .load = &load_decoder<Falcon>,
                      .info = &decoder_info<Falcon>});

}  // namespace
}  // namespace quire
