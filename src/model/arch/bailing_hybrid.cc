// Ling 3: a gated delta rule in most layers, of which every component of a key fades by itself and never faster than a
// bound, latent attention with a gate of each head in few, experts by sigmoids in groups beside a shared one. GGUF has
// no architecture of this name: its files are what `quire quantize` makes of a folder.
#include <algorithm>
#include <cmath>

#include "model/arch/kda.h"
#include "model/layer_kinds.h"
#include "ops/parts.h"

namespace quire {
namespace {

constexpr int64_t kSigmoids = 2;      // GGUF's number
constexpr double kFadeBound = -5.0;   // where the folder does not say
constexpr double kLeastStep = 1e-30;  // smaller ones change nothing, and what is made of them stays a number
constexpr const char* kBound = "ssm.fade_bound";

// Of one layer: by what keys fade.
struct FadeWeights {
  Tensor rates, bias;  // [n_heads], less than 0; [n_inner]
};

class BailingHybrid final : public KeyDelta {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override;
  void load_more(WeightLoader& load) override;
  void run_delta(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const override;

 private:
  // Columns of a delta layer's first product: q, k, v | what fades | what goes on | beta.
  int64_t n_made() const { return config().state.n_conv() + 2 * config().state.n_inner() + config().n_heads; }
  bool has_bound() const { return config().state.fade_bound < 0; }
  void load_delta(WeightLoader& load, StateMixer& mixer) const;
  void bound_fades(const Tensor& dt, const FadeWeights& by) const;

  std::vector<FadeWeights> fades_;  // by layer, where fades have a bound
};

Status BailingHybrid::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  c.rope_pairs = RopePairs::interleaved;
  QR_TRY_VOID(KeyDelta::configure(file, prefix, c));
  if (c.is_state.empty()) return {};
  QR_TRY(const double bound, file.meta.get_double_or(prefix + kBound, -1e3, 0.0, kFadeBound));
  c.state.fade_bound = static_cast<float>(bound);
  return {};
}

void BailingHybrid::load_layer(WeightLoader& load, DecoderLayer& layer) const {
  load_norms(load, layer);
  if (layer.keeps_state) load_delta(load, layer.state);
  if (layer.attends) load_attention(load, layer);
  if (layer.attends) load.linear(layer.attn_gate, "attn_gate", config().n_heads, config().n_embd);
  load_feed_forward(load, layer);
}

void BailingHybrid::load_delta(WeightLoader& load, StateMixer& mixer) const {
  const StateConfig& c = config().state;
  const int64_t n_embd = config().n_embd, n = c.n_inner();
  for (const char* name : {"attn_q", "attn_k", "attn_v", "ssm_f", "attn_gate"}) load.linear(mixer.in, name, n, n_embd);
  load.linear(mixer.in, "ssm_beta", c.n_heads, n_embd);
  load_key_delta(load, mixer);
  DeltaParams& p = mixer.delta;
  if (has_bound()) {
    load.constant(p.dt_bias, n, 0.0F);
    load.constant(p.a, c.n_heads, -1.0F);
  } else {
    load.vector(p.dt_bias, "ssm_dt.bias", n);
    load.numbers(p.a, "ssm_a", c.n_heads);
  }
  load.vector(mixer.norm, "ssm_norm.weight", c.head_dim);
  load.linear(mixer.out, "attn_output", n_embd, n);
}

void BailingHybrid::load_more(WeightLoader& load) {
  if (!has_bound()) return;
  fades_.resize(static_cast<size_t>(config().n_layers));
  for (size_t l = 0; l < fades_.size() && load.status(); ++l) {
    if (!config().is_state[l]) continue;
    load.enter("blk." + std::to_string(l) + ".");
    load.vector(fades_[l].bias, "ssm_dt.bias", config().state.n_inner());
    load.numbers(fades_[l].rates, "ssm_a", config().state.n_heads);
  }
  load.enter("");
}

int64_t BailingHybrid::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  const int64_t row = Arena::row_stride(n_made()) + Arena::row_stride(config().state.n_inner());
  return Decoder::arena_bytes(n_tokens, n_out) + n_tokens * row * 4 + 2 * Arena::kAlign;
}

// dt [n, n_inner] becomes what makes steps of: −bound / (1 + exp(−rate · (dt + bias))).
void BailingHybrid::bound_fades(const Tensor& dt, const FadeWeights& by) const {
  const auto most = -static_cast<double>(config().state.fade_bound);
  const int64_t dim = config().state.head_dim;
  const float* bias = by.bias.ptr<float>();
  for (int64_t row = 0; row < dt.dim(0); ++row) {
    float* x = dt.row<float>(row);
    for (int64_t i = 0; i < dt.dim(1); ++i) {
      const auto rate = -static_cast<double>(by.rates.ptr<float>()[i / dim]);
      const double step = most / (1.0 + std::exp(-rate * (static_cast<double>(x[i]) + static_cast<double>(bias[i]))));
      x[i] = static_cast<float>(std::log(std::expm1(std::max(step, kLeastStep))));
    }
  }
}

void BailingHybrid::run_delta(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  const StateMixer& mixer = layer.state;
  const StateConfig& c = config().state;
  const int64_t n = in.x.dim(0), d = c.n_inner(), n_conv = c.n_conv();
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, n_made());  // [n, q, k, v | what fades | what goes on | beta]
  const Tensor y = pass.arena->alloc_rows(n, d);           // [n, n_inner]
  const Tensor mixed = all.columns(0, n_conv), fades = all.columns(n_conv, d);
  norm_rows(*pass.ops, in);
  pass.ops->linear(all, in.input(), mixer.in);
  pass.ops->short_conv(mixed, mixed, mixer.conv, state_rows(mixer, mixer.conv_offset, pass));
  pass.ops->gated(mixed, mixed, {}, Activation::silu);
  if (has_bound()) {
    pass.ops->finish();
    bound_fades(fades, fades_[static_cast<size_t>(number_of(layer))]);
  }
  const DeltaInput ruled{mixed.columns(0, d), mixed.columns(d, d), mixed.columns(2 * d, d), fades,
                         all.columns(n_conv + 2 * d, c.n_heads)};
  pass.ops->delta_rule(y, ruled, mixer.delta, state_rows(mixer, mixer.scan_offset, pass));
  pass.ops->head_norm(y, mixer.norm, in.eps);
  pass.ops->gated(y, all.columns(n_conv + d, d), y, Activation::sigmoid);
  pass.ops->linear(out, y, mixer.out);
  pass.arena->release(mark);
}

// Which layers have attention: a list of kinds, or the last of every group.
Status layer_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  QR_TRY(const int64_t period, hf.get_int_or("layer_group_size", 1, 4096, 6));
  std::vector<std::string> kinds;
  kinds.reserve(static_cast<size_t>(n_layers));
  for (int64_t l = 1; l <= n_layers; ++l) kinds.emplace_back(l % period == 0 ? "full_attention" : "linear_attention");
  QR_TRY(kinds, layer_kinds(hf, "layer_types", {"full_attention", "linear_attention"}, std::move(kinds)));
  std::vector<int64_t> heads;
  heads.reserve(kinds.size());
  for (const std::string& kind : kinds) heads.push_back(kind == "full_attention" ? 1 : 0);
  hf.set("attention.head_count_kv", std::move(heads),
         hf.find("layer_types") != nullptr ? "layer_types" : "layer_group_size");
  return {};
}

Status expert_facts(HfFacts& hf) {
  copy_expert_counts(hf);
  if (!hf.copy({"moe_renormalize", "norm_topk_prob"}, "expert_weights_norm")) {
    hf.set("expert_weights_norm", true, "moe_renormalize");
  }
  hf.set("expert_gating_func", kSigmoids, "score_function");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY_VOID(hf.require_bool("attention_bias", false));
  QR_TRY_VOID(hf.require_bool("rope_interleave", true));
  hf.copy({"head_dim"}, "kda.head_dim");
  QR_TRY_VOID(translate_latent(hf, LatentForm::cut));
  QR_TRY_VOID(layer_facts(hf));
  QR_TRY_VOID(expert_facts(hf));
  hf.copy({"model_max_length", "max_position_embeddings"}, "context_length");
  hf.copy({"short_conv_kernel_size", "linear_conv_kernel_dim"}, "ssm.conv_kernel");
  hf.copy({"kda_lower_bound"}, kBound);
  QR_TRY(const bool has_bound, hf.get_bool_or("kda_safe_gate", true));
  if (!has_bound) hf.set(kBound, 0.0, "kda_safe_gate");
  return {};
}

std::vector<NameRule> tensors() {
  return {{"model.word_embeddings.weight", "token_embd.weight"},
          {"model.layers.{}.attention.q_proj.weight", "blk.{}.attn_q.weight"},
          {"model.layers.{}.attention.k_proj.weight", "blk.{}.attn_k.weight"},
          {"model.layers.{}.attention.v_proj.weight", "blk.{}.attn_v.weight"},
          {"model.layers.{}.attention.g_proj.weight", "blk.{}.attn_gate.weight"},
          {"model.layers.{}.attention.dense.weight", "blk.{}.attn_output.weight"},
          {.theirs = "model.layers.{}.attention.q_conv1d.weight",
           .ours = "blk.{}.ssm_conv1d_q.weight",
           .reshape = without_middle},
          {.theirs = "model.layers.{}.attention.k_conv1d.weight",
           .ours = "blk.{}.ssm_conv1d_k.weight",
           .reshape = without_middle},
          {.theirs = "model.layers.{}.attention.v_conv1d.weight",
           .ours = "blk.{}.ssm_conv1d_v.weight",
           .reshape = without_middle},
          {.theirs = "model.layers.{}.attention.A_log", .ours = "blk.{}.ssm_a", .reshape = minus_exp},
          {"model.layers.{}.attention.dt_bias", "blk.{}.ssm_dt.bias"},
          {"model.layers.{}.attention.f_proj.weight", "blk.{}.ssm_f.weight"},
          {"model.layers.{}.attention.b_proj.weight", "blk.{}.ssm_beta.weight"},
          {"model.layers.{}.attention.o_norm.weight", "blk.{}.ssm_norm.weight"},
          {"model.layers.{}.attention.q_a_proj.weight", "blk.{}.attn_q_a.weight"},
          {"model.layers.{}.attention.q_a_layernorm.weight", "blk.{}.attn_q_a_norm.weight"},
          {"model.layers.{}.attention.q_b_proj.weight", "blk.{}.attn_q_b.weight"},
          {"model.layers.{}.attention.kv_a_proj_with_mqa.weight", "blk.{}.attn_kv_a_mqa.weight"},
          {"model.layers.{}.attention.kv_a_layernorm.weight", "blk.{}.attn_kv_a_norm.weight"},
          {.theirs = "model.layers.{}.attention.kv_b_proj.weight",
           .ours = "blk.{}.attn_k_b.weight",
           .reshape = latent_to_queries},
          {.theirs = "model.layers.{}.attention.kv_b_proj.weight",
           .ours = "blk.{}.attn_v_b.weight",
           .reshape = latent_to_values},
          {"model.layers.{}.mlp.gate.expert_bias", "blk.{}.exp_probs_b.bias"}};
}

QR_REGISTER(
    ArchEntry,
    "bailing_hybrid",
    ArchEntry{.summary = "Ling 3: a gated delta rule in most layers, latent attention with gates, experts by sigmoids",
              .no_gguf = "GGUF has no name for it",
              .hf = {.model_types = {"bailing_hybrid"}, .tensors = tensors(), .facts = facts, .lists_parts = true},
              .load = &load_decoder<BailingHybrid>,
              .info = &decoder_info<BailingHybrid>});

}  // namespace
}  // namespace quire
