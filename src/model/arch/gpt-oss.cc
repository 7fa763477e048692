// gpt-oss: experts with biases and a clamped unit, a learned sink beside the keys of every head, every other layer
// behind a window. A Hugging Face folder has experts' gates and ups in turns, as columns of floats or as rows in MXFP4.
#include "model/decoder.h"
#include "model/hf_reshape.h"

namespace quire {
namespace {

constexpr int kPeriod = 2;        // of local and global layers
constexpr double kAlpha = 1.702;  // of the unit's sigmoid
constexpr double kLimit = 7.0;    // of what goes into the unit

class GptOss final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string&, DecoderConfig& c) const override {
    c.activation = Activation::clamped_silu;
    c.routing.normalised = true;
    return read_windows(file, kPeriod, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load.vector(layer.attn_norm, "attn_norm.weight", config().n_embd);
    load.vector(layer.ffn_norm, "post_attention_norm.weight", config().n_embd);
    load_attention(load, layer);
    load.vector(layer.attn.sinks, "attn_sinks.weight", config().n_heads);
    load_feed_forward(load, layer);
  }
};

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("quantization_config.quant_method", {"mxfp4"}));
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY_VOID(hf.require_number("swiglu_alpha", kAlpha));
  return hf.require_number("swiglu_limit", kLimit);
}

QR_REGISTER(ArchEntry,
            "gpt-oss",
            ArchEntry{
                .summary = "gpt-oss: sinks, windows, clamped experts with biases",
                .hf = {.model_types = {"gpt_oss"},
                       .tensors = {{"model.layers.{}.post_attention_layernorm.weight",
                                    "blk.{}.post_attention_norm.weight"},
                                   {"model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"},
                                   {"model.layers.{}.mlp.router.weight", "blk.{}.ffn_gate_inp.weight"},
                                   {"model.layers.{}.mlp.router.bias", "blk.{}.ffn_gate_inp.bias"},
                                   {.theirs = "model.layers.{}.mlp.experts.gate_up_proj",
                                    .ours = "blk.{}.ffn_gate_exps.weight",
                                    .reshape = even_columns},
                                   {.theirs = "model.layers.{}.mlp.experts.gate_up_proj",
                                    .ours = "blk.{}.ffn_up_exps.weight",
                                    .reshape = odd_columns},
                                   {.theirs = "model.layers.{}.mlp.experts.gate_up_proj_blocks",
                                    .ours = "blk.{}.ffn_gate_exps.weight",
                                    .reshape = even_rows,
                                    .keeps_rows = true},
                                   {.theirs = "model.layers.{}.mlp.experts.gate_up_proj_blocks",
                                    .ours = "blk.{}.ffn_up_exps.weight",
                                    .reshape = odd_rows,
                                    .keeps_rows = true},
                                   {"model.layers.{}.mlp.experts.down_proj_blocks", "blk.{}.ffn_down_exps.weight"},
                                   {.theirs = "model.layers.{}.mlp.experts.gate_up_proj_bias",
                                    .ours = "blk.{}.ffn_gate_exps.bias",
                                    .reshape = even_numbers},
                                   {.theirs = "model.layers.{}.mlp.experts.gate_up_proj_bias",
                                    .ours = "blk.{}.ffn_up_exps.bias",
                                    .reshape = odd_numbers},
                                   {.theirs = "model.layers.{}.mlp.experts.down_proj",
                                    .ours = "blk.{}.ffn_down_exps.weight",
                                    .reshape = transposed},
                                   {"model.layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias"}},
                       .facts = facts},
                .load = &load_decoder<GptOss>,
                .info = &decoder_info<GptOss>});

}  // namespace
}  // namespace quire
