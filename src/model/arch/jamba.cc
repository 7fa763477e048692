// Jamba: Mamba-1 in most layers, with norms within, attention that does not turn in few, a unit or experts behind both.
#include "model/arch/mamba.h"

namespace quire {
namespace {

class Jamba final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    c.is_still.assign(static_cast<size_t>(c.n_layers), true);
    c.routing.normalised = false;
    return c.is_state.empty() ? Status() : read_column_config(file, prefix, c);
  }
};

// Layers with attention are one of a period, from an offset on.
Status layer_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t period, hf.get_int_or("attn_layer_period", 1, 4096, 8));
  QR_TRY(const int64_t offset, hf.get_int_or("attn_layer_offset", 0, period - 1, std::min<int64_t>(4, period - 1)));
  QR_TRY(const int64_t n_kv_heads, hf.get_int("num_key_value_heads", 1, 4096));
  std::vector<int64_t> heads;
  for (int64_t l = 0; l < n_layers; ++l) heads.push_back(l % period == offset ? n_kv_heads : 0);
  hf.set("attention.head_count_kv", std::move(heads), "num_key_value_heads");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY_VOID(layer_facts(hf));
  QR_TRY(const int64_t n_experts, hf.get_int_or("num_experts", 1, 1 << 16, 16));
  if (n_experts == 1) hf.set("expert_count", int64_t{0}, "num_experts");
  return mamba_facts(hf, {"mamba_d_conv", "mamba_d_state", "mamba_dt_rank", "mamba_expand"});
}

QR_REGISTER(ArchEntry,
            "jamba",
            ArchEntry{
                .summary = "Jamba: Mamba in most layers, attention in few, with experts or without",
                .hf = {.model_types = {"jamba"},
                       .tensors = mamba_tensors(
                           kMambaWithin,
                           {{"model.final_layernorm.weight", "output_norm.weight"},
                            {"model.layers.{}.pre_ff_layernorm.weight", "blk.{}.ffn_norm.weight"},
                            {"model.layers.{}.mamba.dt_layernorm.weight", "blk.{}.ssm_dt_norm.weight"},
                            {"model.layers.{}.mamba.b_layernorm.weight", "blk.{}.ssm_b_norm.weight"},
                            {"model.layers.{}.mamba.c_layernorm.weight", "blk.{}.ssm_c_norm.weight"},
                            {"model.layers.{}.feed_forward.gate_proj.weight", "blk.{}.ffn_gate.weight"},
                            {"model.layers.{}.feed_forward.up_proj.weight", "blk.{}.ffn_up.weight"},
                            {"model.layers.{}.feed_forward.down_proj.weight", "blk.{}.ffn_down.weight"},
                            {"model.layers.{}.feed_forward.router.weight", "blk.{}.ffn_gate_inp.weight"},
                            {"model.layers.{}.feed_forward.experts.{}.gate_proj.weight", "blk.{}.ffn_gate.{}.weight"},
                            {"model.layers.{}.feed_forward.experts.{}.up_proj.weight", "blk.{}.ffn_up.{}.weight"},
                            {"model.layers.{}.feed_forward.experts.{}.down_proj.weight", "blk.{}.ffn_down.{}.weight"}}),
                       .facts = facts,
                       .lists_parts = true},
                .load = &load_decoder<Jamba>,
                .info = &decoder_info<Jamba>});

}  // namespace
}  // namespace quire
