#include "model/delta_mixer.h"

#include "ops/parts.h"

namespace quire {

Status read_delta_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config) {
  QR_TRY_VOID(read_state_config(file, prefix, config));
  config.state.has_delta_rule = true;
  return {};
}

void load_delta_mixer(WeightLoader& load, const DecoderConfig& config, StateMixer& mixer) {
  const StateConfig& c = config.state;
  const int64_t n_keys = int64_t{c.n_head_groups} * c.state_dim;
  if (load.has("attn_qkv.weight")) {
    load.linear(mixer.in, "attn_qkv", c.n_conv(), config.n_embd);
  } else {
    load.linear(mixer.in, "attn_q", n_keys, config.n_embd);
    load.linear(mixer.in, "attn_k", n_keys, config.n_embd);
    load.linear(mixer.in, "attn_v", c.n_inner(), config.n_embd);
  }
  load.linear(mixer.in, "attn_gate", c.n_inner(), config.n_embd);
  if (load.has("ssm_ba.weight")) {
    const int64_t n_sharing = c.n_heads / c.n_head_groups;
    load.runs_apart(mixer.in, "ssm_ba", {c.n_head_groups, n_sharing, n_sharing, config.n_embd});
  } else {
    load.linear(mixer.in, "ssm_beta", c.n_heads, config.n_embd);
    load.linear(mixer.in, "ssm_alpha", c.n_heads, config.n_embd);
  }
  if (load.has("ssm_conv1d.weight")) {
    load.load_transposed(mixer.conv.w, "ssm_conv1d.weight", c.n_conv(), c.n_taps);
  } else {
    const WeightLoader::Part parts[] = {
        {"ssm_conv1d_q.weight", n_keys}, {"ssm_conv1d_k.weight", n_keys}, {"ssm_conv1d_v.weight", c.n_inner()}};
    load.load_transposed(mixer.conv.w, parts, c.n_taps);
  }
  DeltaParams& p = mixer.delta;
  p.n_heads = c.n_heads;
  p.n_key_heads = c.n_head_groups;
  p.k_dim = c.state_dim;
  p.v_dim = c.head_dim;
  p.shares_in_turn = c.shares_in_turn;
  p.beta_scale = c.beta_scale;
  load.vector(p.dt_bias, "ssm_dt.bias", c.n_heads);
  load.numbers(p.a, "ssm_a", c.n_heads);
  load.vector(mixer.norm, "ssm_norm.weight", c.head_dim);
  load.linear(mixer.out, "ssm_out", config.n_embd, c.n_inner());
}

int64_t delta_mixer_row_floats(const StateConfig& c) {
  return Arena::row_stride(c.n_conv() + c.n_inner() + 2 * int64_t{c.n_heads}) + Arena::row_stride(c.n_inner());
}

void run_delta_mixer(
    Tensor out, const StateMixer& mixer, const StateConfig& c, const NormedRows& in, const Pass& pass) {
  const int64_t n = in.x.dim(0), n_inner = c.n_inner(), n_conv = c.n_conv();
  const int64_t n_keys = int64_t{c.n_head_groups} * c.state_dim;
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, n_conv + n_inner + 2 * c.n_heads);  // [n, q, k, v | gate | beta | alpha]
  const Tensor y = pass.arena->alloc_rows(n, n_inner);                             // [n, n_inner]
  const Tensor mixed = all.columns(0, n_conv), gates = all.columns(n_conv + n_inner, 2 * c.n_heads);
  norm_rows(*pass.ops, in);
  pass.ops->linear(all, in.input(), mixer.in);
  pass.ops->short_conv(mixed, mixed, mixer.conv, state_rows(mixer, mixer.conv_offset, pass));
  pass.ops->gated(mixed, mixed, {}, Activation::silu);
  const DeltaInput ruled{mixed.columns(0, n_keys), mixed.columns(n_keys, n_keys), mixed.columns(2 * n_keys, n_inner),
                         gates.columns(c.n_heads, c.n_heads), gates.columns(0, c.n_heads)};
  pass.ops->delta_rule(y, ruled, mixer.delta, state_rows(mixer, mixer.scan_offset, pass));
  pass.ops->head_norm(y, mixer.norm, c.norm_eps > 0 ? c.norm_eps : in.eps);
  pass.ops->gated(y, all.columns(n_conv, n_inner), y, Activation::silu);
  pass.ops->linear(out, y, mixer.out);
  pass.arena->release(mark);
}

}  // namespace quire
