// What Qwen's hybrids share: a gated delta rule in most layers, in every fourth attention with norms on heads and a
// gate of what it found; experts beside a gated shared one, or a unit.
#pragma once
#include <string>
#include <vector>

#include "model/arch/delta.h"
#include "model/head_turns.h"

namespace quire {

class QwenHybrid : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(leave_out_nextn(file, prefix, c));
    QR_TRY(const int64_t period, file.meta.get_int_or(prefix + "full_attention_interval", 1, 4096, 4));
    const bool is_listed = !c.is_state.empty();
    c.is_state.resize(static_cast<size_t>(c.n_layers));
    for (int l = 0; !is_listed && l < c.n_layers; ++l) c.is_state[static_cast<size_t>(l)] = (l + 1) % period != 0;
    return read_delta_config(file, prefix, c);
  }
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override {
    load.vector(layer.attn_norm, "attn_norm.weight", config().n_embd);
    load.vector(layer.ffn_norm, "post_attention_norm.weight", config().n_embd);
    if (layer.keeps_state) load_state_mixer(load, config(), layer.state);
    if (layer.attends) load_gated_attention(load, layer);
    load_feed_forward(load, layer);
    if (!layer.router.empty()) load.gate(layer.shared_gate, "ffn_gate_inp_shexp", config().n_embd);
  }

 private:
  void load_gated_attention(WeightLoader& load, DecoderLayer& layer) const {
    const DecoderConfig& c = config();
    load_head_norms(load, layer);
    load.heads_apart(layer.qkv, layer.attn_gate, "attn_q", {c.n_heads, c.head_dim, c.n_embd});
    load.linear(layer.qkv, "attn_k", kv_dim(), c.n_embd);
    load.linear(layer.qkv, "attn_v", kv_dim(), c.n_embd);
    load.linear(layer.attn_out, "attn_output", c.n_embd, q_dim());
  }
};

inline Status qwen_hybrid_facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  if (hf.find("layer_types") == nullptr) hf.copy({"full_attention_interval"}, "full_attention_interval");
  if (hf.find("intermediate_size") == nullptr) hf.copy({"moe_intermediate_size"}, "feed_forward_length");
  if (hf.find("partial_rotary_factor") == nullptr && hf.find("rope_parameters.partial_rotary_factor") == nullptr) {
    QR_TRY(const int64_t dim, hf.get_int("head_dim", 4, kMaxHeadDim));
    hf.set("rope.dimension_count", dim / 4, "partial_rotary_factor");
  }
  return delta_facts(hf);
}

inline std::vector<NameRule> qwen_hybrid_tensors(std::vector<NameRule> own) {
  const std::vector<NameRule> shared = {
      {"model.norm.weight", "output_norm.weight", true},
      {"model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight", true},
      {"model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight", true},
      {"model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight", true},
      {"model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight", true},
      {.theirs = "model.layers.{}.linear_attn.conv1d.weight",
       .ours = "blk.{}.ssm_conv1d.weight",
       .reshape = without_middle},
      {"model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"},
      {.theirs = "model.layers.{}.linear_attn.A_log", .ours = "blk.{}.ssm_a", .reshape = minus_exp},
      {"model.layers.{}.linear_attn.norm.weight", "blk.{}.ssm_norm.weight"},
      {"model.layers.{}.linear_attn.out_proj.weight", "blk.{}.ssm_out.weight"},
      {.theirs = "model.layers.{}.mlp.experts.gate_up_proj",
       .ours = "blk.{}.ffn_gate_exps.weight",
       .reshape = first_rows},
      {.theirs = "model.layers.{}.mlp.experts.gate_up_proj", .ours = "blk.{}.ffn_up_exps.weight", .reshape = last_rows},
      {"model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight"},
      {"model.layers.{}.mlp.shared_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight"},
      {"model.layers.{}.mlp.shared_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight"},
      {"model.layers.{}.mlp.shared_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight"},
      {"model.layers.{}.mlp.shared_expert_gate.weight", "blk.{}.ffn_gate_inp_shexp.weight"}};
  own.insert(own.end(), shared.begin(), shared.end());
  return own;
}

// Qwen 3.5's: the matrices of a delta rule lie apart. GGUF has the value heads that share a key n_key_heads apart,
// folders side by side.
class Qwen35 : public QwenHybrid {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override {
    QR_TRY_VOID(QwenHybrid::configure(file, prefix, c));
    QR_TRY(const bool in_runs, file.meta.get_bool_or(prefix + kHeadsInRuns, false));
    c.state.shares_in_turn = !in_runs;
    return {};
  }
};

inline Status qwen35_facts(HfFacts& hf) {
  hf.set(kHeadsInRuns, true, "linear_num_key_heads");
  return qwen_hybrid_facts(hf);
}

inline Status qwen35_as_gguf(ModelFile& file) {
  QR_TRY(const std::string arch, file.meta.get_string("general.architecture"));
  DecoderConfig config;
  QR_TRY_VOID(read_delta_config(file, arch + ".", config));
  file.meta.values.erase(arch + "." + kHeadsInRuns);
  return put_heads_in_turn(config.state, file);
}

inline ArchEntry qwen35_entry(std::string_view summary, std::vector<std::string_view> model_types) {
  return {.summary = summary,
          .hf = {.model_types = std::move(model_types),
                 .tensors =
                     qwen_hybrid_tensors({{"model.layers.{}.linear_attn.in_proj_qkv.weight", "blk.{}.attn_qkv.weight"},
                                          {"model.layers.{}.linear_attn.in_proj_z.weight", "blk.{}.attn_gate.weight"},
                                          {"model.layers.{}.linear_attn.in_proj_b.weight", "blk.{}.ssm_beta.weight"},
                                          {"model.layers.{}.linear_attn.in_proj_a.weight", "blk.{}.ssm_alpha.weight"}}),
                 .facts = qwen35_facts,
                 .as_gguf = qwen35_as_gguf,
                 .state_layers = {"linear_attention"}},
          .load = &load_decoder<Qwen35>,
          .info = &decoder_info<Qwen35>};
}

}  // namespace quire
