// Kimi Linear: a gated delta rule in most layers, of which every component of a key fades by itself, latent attention
// that does not turn in few, experts by sigmoids beside a shared one. What fades and what goes on are made by two
// products each, through as few numbers as a head has.
#include "io/in_quotes.h"
#include "model/arch/kda.h"
#include "ops/parts.h"

namespace quire {
namespace {

constexpr int64_t kSigmoids = 2;  // GGUF's number
constexpr std::string_view kLayers = "linear_attn_config.full_attn_layers";

class KimiLinear final : public KeyDelta {
 public:
  int64_t arena_bytes(int64_t n_tokens, int64_t n_out) const override;

 protected:
  Status configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const override;
  void load_layer(WeightLoader& load, DecoderLayer& layer) const override;
  void run_delta(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const override;

 private:
  // Columns of a delta layer's first product: q, k, v | what fades | what goes on | beta.
  int64_t n_made() const { return config().state.n_conv() + 2 * int64_t{config().state.head_dim} + config().n_heads; }
  void load_delta(WeightLoader& load, StateMixer& mixer) const;
};

Status KimiLinear::configure(const ModelFile& file, const std::string& prefix, DecoderConfig& c) const {
  c.is_still.assign(static_cast<size_t>(c.n_layers), true);
  return KeyDelta::configure(file, prefix, c);
}

void KimiLinear::load_layer(WeightLoader& load, DecoderLayer& layer) const {
  if (!layer.keeps_state) return Decoder::load_layer(load, layer);
  load_norms(load, layer);
  load_delta(load, layer.state);
  load_feed_forward(load, layer);
}

void KimiLinear::load_delta(WeightLoader& load, StateMixer& mixer) const {
  const StateConfig& c = config().state;
  const int64_t n_embd = config().n_embd, n = c.n_inner();
  for (const char* name : {"attn_q", "attn_k", "attn_v"}) load.linear(mixer.in, name, n, n_embd);
  for (const char* name : {"ssm_f_a", "ssm_g_a"}) load.linear(mixer.in, name, c.head_dim, n_embd);
  load.linear(mixer.in, "ssm_beta", c.n_heads, n_embd);
  load.linear(mixer.steps, "ssm_f_b", n, c.head_dim);
  load.linear(mixer.parts, "ssm_g_b", n, c.head_dim);
  load_key_delta(load, mixer);
  DeltaParams& p = mixer.delta;
  load.vector(p.dt_bias, "ssm_dt.bias", n);
  load.numbers(p.a, "ssm_a", c.n_heads);
  load.vector(mixer.norm, "ssm_norm.weight", c.head_dim);
  load.linear(mixer.out, "attn_output", n_embd, n);
}

int64_t KimiLinear::arena_bytes(int64_t n_tokens, int64_t n_out) const {
  const int64_t row = Arena::row_stride(n_made()) + 3 * Arena::row_stride(config().state.n_inner());
  return Decoder::arena_bytes(n_tokens, n_out) + n_tokens * row * 4 + 4 * Arena::kAlign;
}

void KimiLinear::run_delta(Tensor out, const DecoderLayer& layer, const NormedRows& in, const Pass& pass) const {
  const StateMixer& mixer = layer.state;
  const StateConfig& c = config().state;
  const int64_t n = in.x.dim(0), n_inner = c.n_inner(), n_conv = c.n_conv(), rank = c.head_dim;
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, n_made());   // [n, q, k, v | what fades | what goes on | beta]
  const Tensor fades = pass.arena->alloc_rows(n, n_inner);  // [n, n_inner]
  const Tensor gate = pass.arena->alloc_rows(n, n_inner);   // [n, n_inner]
  const Tensor y = pass.arena->alloc_rows(n, n_inner);      // [n, n_inner]
  const Tensor mixed = all.columns(0, n_conv);
  norm_rows(*pass.ops, in);
  pass.ops->linear(all, in.input(), mixer.in);
  pass.ops->short_conv(mixed, mixed, mixer.conv, state_rows(mixer, mixer.conv_offset, pass));
  pass.ops->gated(mixed, mixed, {}, Activation::silu);
  pass.ops->linear(fades, all.columns(n_conv, rank), mixer.steps);
  const DeltaInput ruled{mixed.columns(0, n_inner), mixed.columns(n_inner, n_inner),
                         mixed.columns(2 * n_inner, n_inner), fades, all.columns(n_conv + 2 * rank, c.n_heads)};
  pass.ops->delta_rule(y, ruled, mixer.delta, state_rows(mixer, mixer.scan_offset, pass));
  pass.ops->head_norm(y, mixer.norm, in.eps);
  pass.ops->linear(gate, all.columns(n_conv + rank, rank), mixer.parts);
  pass.ops->gated(y, gate, y, Activation::sigmoid);
  pass.ops->linear(out, y, mixer.out);
  pass.arena->release(mark);
}

// Which layers have attention: a list of kinds, or of their numbers, of which the first is 1.
Status layer_facts(HfFacts& hf) {
  QR_TRY(const int64_t n_layers, hf.get_int("num_hidden_layers", 1, 4096));
  std::vector<int64_t> heads(static_cast<size_t>(n_layers), 0);
  const MetaValue* kinds = hf.find("layer_types");
  const auto* names = kinds != nullptr ? std::get_if<std::vector<std::string>>(kinds) : nullptr;
  const MetaValue* listed = hf.find(kLayers);
  const auto* numbers = listed != nullptr ? std::get_if<std::vector<int64_t>>(listed) : nullptr;
  if (numbers == nullptr && (names == nullptr || names->size() != heads.size())) {
    return fail(Code::corrupt, "key " + in_quotes(kLayers) + ": must be a list of layers' numbers");
  }
  for (size_t l = 0; numbers == nullptr && l < heads.size(); ++l) heads[l] = (*names)[l] == "full_attention" ? 1 : 0;
  for (const int64_t l : numbers != nullptr ? *numbers : std::vector<int64_t>()) {
    if (l < 1 || l > n_layers) {
      return fail(Code::corrupt, "key " + in_quotes(kLayers) + ": must have numbers of 1 to " +
                                     std::to_string(n_layers) + ", has " + std::to_string(l));
    }
    heads[static_cast<size_t>(l - 1)] = 1;
  }
  hf.set("attention.head_count_kv", std::move(heads), kLayers);
  return {};
}

Status delta_facts(HfFacts& hf) {
  const bool nested = hf.find("linear_attn_config.num_heads") != nullptr;
  const std::string_view key = nested ? "linear_attn_config.num_heads" : "linear_num_heads";
  QR_TRY(const int64_t n_heads, hf.get_int("num_attention_heads", 1, 4096));
  QR_TRY_VOID(hf.require_number(key, static_cast<double>(n_heads)));
  hf.copy({"linear_attn_config.head_dim", "linear_head_dim"}, "kda.head_dim");
  hf.copy({"linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"}, "ssm.conv_kernel");
  return {};
}

Status facts(HfFacts& hf) {
  QR_TRY_VOID(hf.require("hidden_act", {"silu"}));
  QR_TRY_VOID(hf.require("moe_router_activation_func", {"sigmoid"}));
  QR_TRY_VOID(hf.require_bool("mla_use_nope", true));
  QR_TRY_VOID(translate_latent(hf, LatentForm::cut));
  QR_TRY_VOID(layer_facts(hf));
  hf.copy({"model_max_length", "max_position_embeddings"}, "context_length");
  copy_expert_counts(hf);
  if (hf.find("norm_topk_prob") == nullptr) hf.set("expert_weights_norm", true, "moe_renormalize");
  if (hf.find("moe_renormalize") != nullptr) hf.copy({"moe_renormalize"}, "expert_weights_norm");
  hf.set("expert_gating_func", kSigmoids, "moe_router_activation_func");
  return delta_facts(hf);
}

// [1, 1, n, 1] → −exp [n, 1].
Status decays(const HostWeight& theirs, const Metadata& facts, HostWeight& ours, ModelFile& file) {
  HostWeight flat = theirs;
  flat.shape = {theirs.n_rows() * theirs.n_cols()};
  return minus_exp(flat, facts, ours, file);
}

// Parts of layers that are experts have this name in place of "mlp" in folders that others than the package wrote.
std::vector<NameRule> tensors() {
  std::vector<NameRule> out = latent_names(LatentForm::cut);
  const NameRule own[] = {
      {.theirs = "model.layers.{}.self_attn.q_conv1d.weight",
       .ours = "blk.{}.ssm_conv1d_q.weight",
       .reshape = without_middle},
      {.theirs = "model.layers.{}.self_attn.k_conv1d.weight",
       .ours = "blk.{}.ssm_conv1d_k.weight",
       .reshape = without_middle},
      {.theirs = "model.layers.{}.self_attn.v_conv1d.weight",
       .ours = "blk.{}.ssm_conv1d_v.weight",
       .reshape = without_middle},
      {.theirs = "model.layers.{}.self_attn.A_log", .ours = "blk.{}.ssm_a", .reshape = decays},
      {"model.layers.{}.self_attn.dt_bias", "blk.{}.ssm_dt.bias"},
      {"model.layers.{}.self_attn.f_a_proj.weight", "blk.{}.ssm_f_a.weight"},
      {"model.layers.{}.self_attn.f_b_proj.weight", "blk.{}.ssm_f_b.weight"},
      {"model.layers.{}.self_attn.g_a_proj.weight", "blk.{}.ssm_g_a.weight"},
      {"model.layers.{}.self_attn.g_b_proj.weight", "blk.{}.ssm_g_b.weight"},
      {"model.layers.{}.self_attn.b_proj.weight", "blk.{}.ssm_beta.weight"},
      {"model.layers.{}.self_attn.o_norm.weight", "blk.{}.ssm_norm.weight"},
      {"model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
      {"model.layers.{}.block_sparse_moe.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
      {"model.layers.{}.block_sparse_moe.gate_proj.weight", "blk.{}.ffn_gate.weight"},
      {"model.layers.{}.block_sparse_moe.up_proj.weight", "blk.{}.ffn_up.weight"},
      {"model.layers.{}.block_sparse_moe.down_proj.weight", "blk.{}.ffn_down.weight"},
      {"model.layers.{}.block_sparse_moe.experts.{}.w1.weight", "blk.{}.ffn_gate.{}.weight"},
      {"model.layers.{}.block_sparse_moe.experts.{}.w2.weight", "blk.{}.ffn_down.{}.weight"},
      {"model.layers.{}.block_sparse_moe.experts.{}.w3.weight", "blk.{}.ffn_up.{}.weight"},
      {"model.layers.{}.block_sparse_moe.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight"},
      {"model.layers.{}.block_sparse_moe.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight"},
      {"model.layers.{}.block_sparse_moe.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight"}};
  out.insert(out.end(), std::begin(own), std::end(own));
  return out;
}

QR_REGISTER(ArchEntry,
            "kimi-linear",
            ArchEntry{
                .summary = "Kimi Linear: a gated delta rule in most layers, latent attention, experts by sigmoids",
                .hf = {.model_types = {"kimi_linear"}, .tensors = tensors(), .facts = facts, .lists_parts = true},
                .load = &load_decoder<KimiLinear>,
                .info = &decoder_info<KimiLinear>});

}  // namespace
}  // namespace quire
