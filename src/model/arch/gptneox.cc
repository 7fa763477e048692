// GPT-NeoX and Pythia: layer norms, biases, both parts of a layer from the same rows behind norms of their own, units
// without a gate, a part of a head turns. Hugging Face has q, k and v head by head, GGUF one after the other.
#include "model/arch/fused_qkv.h"

namespace quire {
namespace {

class GptNeoX final : public FusedQkvDecoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.norm = NormKind::layer;
    c.activation = Activation::gelu_erf;
    c.has_gate = false;
    QR_TRY(c.is_parallel, file.meta.get_bool_or(prefix + "use_parallel_residual", true));
    return {};
  }
};

Status facts(HfFacts& hf) {
  hf.copy({"use_parallel_residual"}, "use_parallel_residual");
  hf.copy({"rotary_emb_base"}, "rope.freq_base");
  return hf.require("hidden_act", {"gelu"});
}

QR_REGISTER(ArchEntry,
            "gptneox",
            ArchEntry{
                .summary = "GPT-NeoX and Pythia: parallel parts, layer norms, biases",
                .hf = {.model_types = {"gpt_neox"},
                       .tensors = {{"gpt_neox.embed_in.weight", "token_embd.weight"},
                                   {"gpt_neox.final_layer_norm.weight", "output_norm.weight"},
                                   {"gpt_neox.final_layer_norm.bias", "output_norm.bias"},
                                   {"embed_out.weight", "output.weight"},
                                   {"gpt_neox.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
                                   {"gpt_neox.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
                                   {"gpt_neox.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
                                   {"gpt_neox.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
                                   {.theirs = "gpt_neox.layers.{}.attention.query_key_value.weight",
                                    .ours = "blk.{}.attn_qkv.weight",
                                    .reshape = heads_apart},
                                   {.theirs = "gpt_neox.layers.{}.attention.query_key_value.bias",
                                    .ours = "blk.{}.attn_qkv.bias",
                                    .reshape = heads_apart},
                                   {"gpt_neox.layers.{}.attention.dense.weight", "blk.{}.attn_output.weight"},
                                   {"gpt_neox.layers.{}.attention.dense.bias", "blk.{}.attn_output.bias"},
                                   {"gpt_neox.layers.{}.mlp.dense_h_to_4h.weight", "blk.{}.ffn_up.weight"},
                                   {"gpt_neox.layers.{}.mlp.dense_h_to_4h.bias", "blk.{}.ffn_up.bias"},
                                   {"gpt_neox.layers.{}.mlp.dense_4h_to_h.weight", "blk.{}.ffn_down.weight"},
                                   {"gpt_neox.layers.{}.mlp.dense_4h_to_h.bias", "blk.{}.ffn_down.bias"}},
                       .facts = facts},
                .load = &load_decoder<GptNeoX>,
                .info = &decoder_info<GptNeoX>});

}  // namespace
}  // namespace quire
