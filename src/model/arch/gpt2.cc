// GPT-2: learned positions in place of rotation, layer norms, biases, units without a gate. Hugging Face has its
// matrices turned over.
#include "model/arch/fused_qkv.h"

namespace quire {
namespace {

class Gpt2 final : public FusedQkvDecoder {
 protected:
  Status configure(const ModelFile& file, const std::string&, DecoderConfig& c) const override {
    QR_TRY_VOID(read_positions(file, c));
    c.norm = NormKind::layer;
    c.activation = Activation::gelu_tanh;
    c.has_gate = false;
    c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    return {};
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"}));
  QR_TRY_VOID(hf.require_bool("scale_attn_weights", true));
  QR_TRY_VOID(hf.require_bool("scale_attn_by_inverse_layer_idx", false));
  QR_TRY_VOID(hf.require_bool("add_cross_attention", false));
  hf.copy({"n_embd"}, "embedding_length");
  hf.copy({"n_layer"}, "block_count");
  hf.copy({"n_positions", "n_ctx"}, "context_length");
  hf.copy({"n_head"}, "attention.head_count");
  hf.copy({"n_head"}, "attention.head_count_kv");
  hf.copy({"layer_norm_epsilon"}, "attention.layer_norm_epsilon");
  QR_TRY(const int64_t n_embd, hf.get_int("n_embd", 1, 1 << 20));
  hf.set("feed_forward_length", 4 * n_embd, "n_embd");
  if (hf.find("n_inner") != nullptr) hf.copy({"n_inner"}, "feed_forward_length");
  return {};
}

std::vector<NameRule> tensors() {
  return also_within_transformer(
      {{"wte.weight", "token_embd.weight"},
       {"wpe.weight", "position_embd.weight"},
       {"ln_f.weight", "output_norm.weight"},
       {"ln_f.bias", "output_norm.bias"},
       {"h.{}.ln_1.weight", "blk.{}.attn_norm.weight"},
       {"h.{}.ln_1.bias", "blk.{}.attn_norm.bias"},
       {"h.{}.ln_2.weight", "blk.{}.ffn_norm.weight"},
       {"h.{}.ln_2.bias", "blk.{}.ffn_norm.bias"},
       {.theirs = "h.{}.attn.c_attn.weight", .ours = "blk.{}.attn_qkv.weight", .reshape = transposed},
       {"h.{}.attn.c_attn.bias", "blk.{}.attn_qkv.bias"},
       {.theirs = "h.{}.attn.c_proj.weight", .ours = "blk.{}.attn_output.weight", .reshape = transposed},
       {"h.{}.attn.c_proj.bias", "blk.{}.attn_output.bias"},
       {.theirs = "h.{}.mlp.c_fc.weight", .ours = "blk.{}.ffn_up.weight", .reshape = transposed},
       {"h.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias"},
       {.theirs = "h.{}.mlp.c_proj.weight", .ours = "blk.{}.ffn_down.weight", .reshape = transposed},
       {"h.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias"}});
}

QR_REGISTER(ArchEntry,
            "gpt2",
            ArchEntry{.summary = "GPT-2: learned positions, layer norms, biases",
                      .hf = {.model_types = {"gpt2"}, .tensors = tensors(), .facts = facts},
                      .load = &load_decoder<Gpt2>,
                      .info = &decoder_info<Gpt2>});

}  // namespace
}  // namespace quire
