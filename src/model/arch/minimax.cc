// MiniMax-Text-01 and M1: lightning attention in most layers, softmax attention in few, experts behind both. Parts add
// to the normed rows that they read. Lightning attention is a scan whose steps are all 1: a state fades by its head's
// slope, is written by keys and read by queries. GGUF has no architecture of this name: its files are what `quire
// quantize` makes of a folder. Sources: MiniMax 2025 (arXiv:2501.08313); Qin et al. 2024, "Lightning Attention-2".
#include <cmath>

#include "io/in_quotes.h"
#include "model/decoder.h"
#include "model/hf_reshape.h"
#include "ops/parts.h"
#include "ops/state_sizes.h"

namespace quire {
namespace {

constexpr std::string_view kKinds = "attn_type_list";
constexpr float kMixedEps = 1e-6F;                // of the norm of what a scan found, whatever the others have
constexpr float kStepOfOne = 0.541324854612918F;  // whose softplus is 1

class MiniMax final : public Decoder {
 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override;
  void run_layer(const DecoderLayer& layer,
                 NormedRows& in,
                 Tensor delta,
                 const Rotation& rotation,
                 const Pass& pass) const override;

 private:
  void load_lightning(WeightLoader& load, const DecoderLayer& layer, StateMixer& mixer) const;
  static void run_lightning(Tensor out, const StateMixer& mixer, const NormedRows& in, const Pass& pass);
  // The residual stream becomes its own norm, which the next part reads and adds to.
  void norm_stream(NormedRows& in, const Tensor& w, const Pass& pass) const;
};

Status MiniMax::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  const std::pair<const char*, float*> factors[] = {
      {"attention_kept", &c.attention_sum.kept}, {"attention_found", &c.attention_sum.found},
      {"state_kept", &c.state_sum.kept},         {"state_found", &c.state_sum.found},
      {"unit_kept", &c.unit_sum.kept},           {"unit_found", &c.unit_sum.found}};
  for (const auto& [name, out] : factors) {
    QR_TRY(const double factor, file.meta.get_double_or(prefix + "factor." + name, -1e6, 1e6, 1.0));
    *out = static_cast<float>(factor);
  }
  if (c.is_state.empty()) return {};
  if (c.head_dim > kMostStateDim) {
    return fail(Code::unsupported, "key " + file.meta.shown(prefix + "attention.key_length") + ": must be at most " +
                                       std::to_string(kMostStateDim) + " in layers that keep a state, is " +
                                       std::to_string(c.head_dim));
  }
  c.state.n_heads = c.state.n_head_groups = c.n_heads;
  c.state.head_dim = c.state.state_dim = c.head_dim;
  c.state.n_taps = 1;
  return {};
}

void MiniMax::load_layer(WeightLoader& load, DecoderLayer& layer) const {
  load_norms(load, layer);
  layer.keeps_state ? load_lightning(load, layer, layer.state) : load_attention(load, layer);
  load_feed_forward(load, layer);
}

void MiniMax::load_lightning(WeightLoader& load, const DecoderLayer& layer, StateMixer& mixer) const {
  const DecoderConfig& c = config();
  const int64_t n = c.state.n_inner();
  load.linear(mixer.in, "attn_qkv", 3 * n, c.n_embd);
  load.linear(mixer.in, "attn_gate", n, c.n_embd);
  load.vector(mixer.norm, "ssm_norm.weight", n);
  load.linear(mixer.out, "attn_output", c.n_embd, n);
  ScanParams& p = mixer.scan;
  p.n_heads = p.n_head_groups = c.state.n_heads;
  p.head_dim = p.state_dim = c.state.head_dim;
  load.constant(p.dt_bias, p.n_heads, kStepOfOne);
  load.constant(p.d, p.n_heads, 0.0F);
  // Slopes fall with the head and with the layer.
  const double of_layer = 1.0 - number_of(layer) / (c.n_layers - 1 + 1e-5) + 1e-5;
  std::vector<float> fades;
  for (int h = 1; h <= p.n_heads; ++h) {
    fades.push_back(static_cast<float>(-of_layer * std::exp2(-8.0 * h / p.n_heads)));
  }
  load.given(p.a, fades);
}

void MiniMax::run_lightning(Tensor out, const StateMixer& mixer, const NormedRows& in, const Pass& pass) {
  const ScanParams& p = mixer.scan;
  const int64_t n = in.x.dim(0), d = int64_t{p.n_heads} * p.head_dim;
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, 4 * d);        // [n, q | k | v | gate]
  const Tensor y = pass.arena->alloc_rows(n, d);              // [n, d]
  const Tensor steps = pass.arena->alloc_rows(n, p.n_heads);  // [n, n_heads]: what is added to that of 1
  const Tensor made = all.columns(0, 3 * d);
  pass.ops->finish();
  for (int64_t row = 0; row < n; ++row) std::fill_n(steps.row<float>(row), p.n_heads, 0.0F);
  pass.ops->linear(all, in.input(), mixer.in);
  pass.ops->gated(made, made, {}, Activation::silu);
  const ScanInput scanned{made.columns(2 * d, d), made.columns(d, d), made.columns(0, d), steps};
  pass.ops->scan(y, scanned, p, state_rows(mixer, mixer.scan_offset, pass));
  pass.ops->rms_norm(y, y, mixer.norm, kMixedEps);
  pass.ops->gated(y, all.columns(3 * d, d), y, Activation::sigmoid);
  pass.ops->linear(out, y, mixer.out);
  pass.arena->release(mark);
}

void MiniMax::norm_stream(NormedRows& in, const Tensor& w, const Pass& pass) const {
  settle(in, pass);
  pass.ops->rms_norm(in.x, in.x, w, in.eps);
  in.w = {};
}

void MiniMax::run_layer(
    const DecoderLayer& layer, NormedRows& in, Tensor delta, const Rotation& rotation, const Pass& pass) const {
  const auto add = [&](const NormedSum& by) {
    if (by.kept != 1.0F) pass.ops->scale(in.x, by.kept);
    if (by.found != 1.0F) pass.ops->scale(delta, by.found);
    in.delta = delta;
  };
  norm_stream(in, layer.attn_norm, pass);
  if (layer.keeps_state) run_lightning(delta, layer.state, in, pass);
  if (!layer.keeps_state) attention(delta, layer, in, rotation, pass);
  add(layer.keeps_state ? config().state_sum : config().attention_sum);
  norm_stream(in, layer.ffn_norm, pass);
  feed_forward(delta, layer, in, pass);
  add(config().unit_sum);
}

// Every other layer is lightning attention unless the folder lists kinds: by names, or the authors' own by numbers, 0
// for it.
Status layer_facts(HfFacts& hf) {
  if (hf.find("layer_types") != nullptr) return {};
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  const MetaValue* value = hf.find(kKinds);
  const auto* kinds = value != nullptr ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  if (value != nullptr && (kinds == nullptr || kinds->size() != static_cast<size_t>(n_layers))) {
    return fail(Code::corrupt, "key " + in_quotes(kKinds) + ": must be a list of " + std::to_string(n_layers) +
                                   " numbers, has " + std::to_string(kinds != nullptr ? kinds->size() : 0));
  }
  std::vector<int64_t> states;
  states.reserve(static_cast<size_t>(n_layers));
  for (int64_t l = 0; l < n_layers; ++l) {
    states.push_back(kinds != nullptr ? ((*kinds)[static_cast<size_t>(l)] == 0 ? 1 : 0) : l % 2);
  }
  hf.set("attention.recurrent_layers", std::move(states), kinds != nullptr ? kKinds : "layer_types");
  return {};
}

// What the authors' own folders say beside: what the package takes for granted.
Status own_facts(HfFacts& hf) {
  const MetaValue* type = hf.find("model_type");
  if (type == nullptr || *type == MetaValue(std::string("minimax"))) return {};
  QR_TRY(const bool normed, hf.get_bool_or("postnorm", false));
  if (!normed) return fail(Code::unsupported, "key \"postnorm\": only true is supported");
  QR_TRY_VOID(hf.require_number("shared_intermediate_size", 0));
  QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
  if ((n_heads & (n_heads - 1)) != 0) {  // their slopes are others
    return fail(Code::unsupported, "key \"num_attention_heads\": must be a power of 2, is " + std::to_string(n_heads));
  }
  hf.copy({"rotary_dim"}, "rope.dimension_count");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  hf.copy({"full_attn_alpha_factor", "layernorm_full_attention_alpha"}, "factor.attention_kept");
  hf.copy({"full_attn_beta_factor", "layernorm_full_attention_beta"}, "factor.attention_found");
  hf.copy({"linear_attn_alpha_factor", "layernorm_linear_attention_alpha"}, "factor.state_kept");
  hf.copy({"linear_attn_beta_factor", "layernorm_linear_attention_beta"}, "factor.state_found");
  hf.copy({"mlp_alpha_factor", "layernorm_mlp_alpha"}, "factor.unit_kept");
  hf.copy({"mlp_beta_factor", "layernorm_mlp_beta"}, "factor.unit_found");
  QR_TRY_VOID(own_facts(hf));
  return layer_facts(hf);
}

std::vector<NameRule> tensors() {
  return {
      {.theirs = "model.layers.{}.self_attn.qkv_proj.weight", .ours = "blk.{}.attn_qkv.weight", .reshape = heads_apart},
      {"model.layers.{}.self_attn.output_gate.weight", "blk.{}.attn_gate.weight"},
      {"model.layers.{}.self_attn.out_proj.weight", "blk.{}.attn_output.weight"},
      {"model.layers.{}.self_attn.norm.weight", "blk.{}.ssm_norm.weight"},
      {"model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
      {"model.layers.{}.block_sparse_moe.experts.{}.w1.weight", "blk.{}.ffn_gate.{}.weight"},
      {"model.layers.{}.block_sparse_moe.experts.{}.w3.weight", "blk.{}.ffn_up.{}.weight"},
      {"model.layers.{}.block_sparse_moe.experts.{}.w2.weight", "blk.{}.ffn_down.{}.weight"}};
}

QR_REGISTER(ArchEntry,
            "minimax",
            ArchEntry{.summary = "MiniMax-Text-01 and M1: lightning attention in most layers, with experts",
                      .no_gguf = "GGUF has no name for it",
                      .hf = {.model_types = {"minimax", "minimax_text_01", "minimax_m1"},
                             .tensors = tensors(),
                             .facts = facts,
                             .state_layers = {"linear_attention"}},
                      .load = &load_decoder<MiniMax>,
                      .info = &decoder_info<MiniMax>});

}  // namespace
}  // namespace quire
