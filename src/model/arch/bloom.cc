// BLOOM: scores that fall with distance in place of positions, a norm of embeddings, layer norms, biases, units without
// a gate. Hugging Face has q, k and v together, head by head, GGUF one after the other.
#include "model/arch/fused_qkv.h"

namespace quire {
namespace {

constexpr float kSlopeBits = 8.0F;       // no file says it
constexpr int64_t kUsualContext = 2048;  // likewise of folders that do not name what it was trained for

class Bloom final : public FusedQkvDecoder {
 protected:
  Status configure(const ModelFile&, const std::string&, DecoderConfig& c) const override {
    c.norm = NormKind::layer;
    c.activation = Activation::gelu_tanh;
    c.has_gate = false;
    c.has_embed_norm = true;
    c.most_slope_bits = kSlopeBits;
    c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    return {};
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require_bool("apply_residual_connection_post_layernorm", false));
  hf.copy({"n_embed", "hidden_size"}, "embedding_length");
  hf.copy({"n_layer", "num_hidden_layers"}, "block_count");
  hf.copy({"n_head", "num_attention_heads"}, "attention.head_count");
  hf.copy({"n_head", "num_attention_heads"}, "attention.head_count_kv");
  hf.copy({"layer_norm_epsilon"}, "attention.layer_norm_epsilon");
  if (!hf.copy({"seq_length"}, "context_length")) hf.set("context_length", kUsualContext, "seq_length");
  QR_TRY(const int64_t n_embd, hf.get_int(hf.find("n_embed") != nullptr ? "n_embed" : "hidden_size", 1, 1 << 20));
  hf.set("feed_forward_length", 4 * n_embd, "hidden_size");
  return {};
}

Status head_by_head(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  const char* key = facts.find("hf.n_head") != nullptr ? "hf.n_head" : "hf.num_attention_heads";
  QR_TRY(const int64_t n_heads, facts.get_int(key, 1, 4096));
  return kv_heads_apart(theirs, n_heads, n_heads, ours, file);
}

std::vector<NameRule> tensors() {
  return also_within_transformer(
      {{"word_embeddings.weight", "token_embd.weight"},
       {"word_embeddings_layernorm.weight", "token_embd_norm.weight"},
       {"word_embeddings_layernorm.bias", "token_embd_norm.bias"},
       {"ln_f.weight", "output_norm.weight"},
       {"ln_f.bias", "output_norm.bias"},
       {"h.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
       {"h.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
       {"h.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
       {"h.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
       {.theirs = "h.{}.self_attention.query_key_value.weight",
        .ours = "blk.{}.attn_qkv.weight",
        .reshape = head_by_head},
       {.theirs = "h.{}.self_attention.query_key_value.bias", .ours = "blk.{}.attn_qkv.bias", .reshape = head_by_head},
       {"h.{}.self_attention.dense.weight", "blk.{}.attn_output.weight"},
       {"h.{}.self_attention.dense.bias", "blk.{}.attn_output.bias"},
       {"h.{}.mlp.dense_h_to_4h.weight", "blk.{}.ffn_up.weight"},
       {"h.{}.mlp.dense_h_to_4h.bias", "blk.{}.ffn_up.bias"},
       {"h.{}.mlp.dense_4h_to_h.weight", "blk.{}.ffn_down.weight"},
       {"h.{}.mlp.dense_4h_to_h.bias", "blk.{}.ffn_down.bias"}});
}

QR_REGISTER(ArchEntry,
            "bloom",
            ArchEntry{.summary = "BLOOM: scores that fall with distance, layer norms, biases",
                      .hf = {.model_types = {"bloom"}, .tensors = tensors(), .facts = facts},
                      .load = &load_decoder<Bloom>,
                      .info = &decoder_info<Bloom>});

}  // namespace
}  // namespace quire
