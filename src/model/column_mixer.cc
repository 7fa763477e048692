#include "model/column_mixer.h"

#include "base/bounded_reader.h"
#include "ops/parts.h"
#include "ops/state_sizes.h"

namespace quire {

Status read_column_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config) {
  StateConfig& c = config.state;
  const auto read = [&](const char* name, int64_t lo, int64_t hi, int& out) -> Status {
    QR_TRY(const int64_t value, file.meta.get_int(prefix + name, lo, hi));
    out = static_cast<int>(value);
    return {};
  };
  QR_TRY_VOID(read("ssm.conv_kernel", 1, kMostTaps, c.n_taps));
  QR_TRY_VOID(read("ssm.state_size", 1, kMostStateDim, c.state_dim));
  QR_TRY_VOID(read("ssm.inner_size", 1, 1 << 20, c.head_dim));
  QR_TRY_VOID(read("ssm.time_step_rank", 1, 1 << 16, c.n_step_rank));
  QR_TRY(c.plain_part_norms, file.meta.get_bool_or(prefix + "ssm.dt_b_c_rms", false));
  QR_TRY(const double eps, file.meta.get_double_or(prefix + kPartEpsilon, 0.0, 1.0, 0.0));
  c.norm_eps = static_cast<float>(eps);
  c.n_heads = c.n_head_groups = 1;
  return {};
}

namespace {

void load_part_norms(WeightLoader& load, const StateConfig& c, StateMixer& mixer) {
  if (c.plain_part_norms) {
    load.ones(mixer.step_norm, c.n_step_rank);
    load.ones(mixer.b_norm, c.state_dim);
    load.ones(mixer.c_norm, c.state_dim);
    return;
  }
  if (!load.has("ssm_dt_norm.weight")) return;
  load.vector(mixer.step_norm, "ssm_dt_norm.weight", c.n_step_rank);
  load.vector(mixer.b_norm, "ssm_b_norm.weight", c.state_dim);
  load.vector(mixer.c_norm, "ssm_c_norm.weight", c.state_dim);
}

}  // namespace

void load_column_mixer(WeightLoader& load, const DecoderConfig& config, StateMixer& mixer) {
  const StateConfig& c = config.state;
  const int64_t n_inner = c.n_inner();
  load.linear(mixer.in, "ssm_in", 2 * n_inner, config.n_embd);
  load.load_transposed(mixer.conv.w, "ssm_conv1d.weight", n_inner, c.n_taps);
  if (load.has("ssm_conv1d.bias")) load.vector(mixer.conv.b, "ssm_conv1d.bias", n_inner);
  load.linear(mixer.parts, "ssm_x", c.n_step_rank + 2 * int64_t{c.state_dim}, n_inner);
  load.linear(mixer.steps, "ssm_dt", n_inner, c.n_step_rank);  // its bias with it
  load_part_norms(load, c, mixer);
  mixer.scan.n_heads = mixer.scan.n_head_groups = 1;
  mixer.scan.head_dim = c.head_dim;
  mixer.scan.state_dim = c.state_dim;
  mixer.scan.by_component = true;
  load.constant(mixer.scan.dt_bias, n_inner, 0.0F);
  load.load_transposed(mixer.scan.a, "ssm_a", n_inner, c.state_dim);
  load.numbers(mixer.scan.d, "ssm_d", n_inner);
  load.linear(mixer.out, "ssm_out", config.n_embd, n_inner);
}

int64_t column_mixer_row_floats(const StateConfig& c) {
  return Arena::row_stride(2 * c.n_inner()) + 2 * Arena::row_stride(c.n_inner()) +
         Arena::row_stride(c.n_step_rank + 2 * int64_t{c.state_dim});
}

void run_column_mixer(
    Tensor out, const StateMixer& mixer, const StateConfig& c, const NormedRows& in, const Pass& pass) {
  const int64_t n = in.x.dim(0), n_inner = c.n_inner(), dim = c.state_dim, rank = c.n_step_rank;
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, 2 * n_inner);       // [n, x | gate]
  const Tensor mixed = pass.arena->alloc_rows(n, n_inner);         // [n, n_inner]
  const Tensor parts = pass.arena->alloc_rows(n, rank + 2 * dim);  // [n, steps | b | c]
  const Tensor steps = pass.arena->alloc_rows(n, n_inner);         // [n, n_inner]
  const Tensor y = all.columns(0, n_inner);                        // when x is not read any more
  norm_rows(*pass.ops, in);
  pass.ops->linear(all, in.input(), mixer.in);
  pass.ops->short_conv(mixed, all.columns(0, n_inner), mixer.conv, state_rows(mixer, mixer.conv_offset, pass));
  pass.ops->gated(mixed, mixed, {}, Activation::silu);
  pass.ops->linear(parts, mixed, mixer.parts);
  const Tensor by_rank = parts.columns(0, rank), b = parts.columns(rank, dim), read = parts.columns(rank + dim, dim);
  if (!mixer.step_norm.empty()) {
    const float eps = c.norm_eps > 0 ? c.norm_eps : in.eps;
    pass.ops->rms_norm(by_rank, by_rank, mixer.step_norm, eps);
    pass.ops->rms_norm(b, b, mixer.b_norm, eps);
    pass.ops->rms_norm(read, read, mixer.c_norm, eps);
  }
  pass.ops->linear(steps, by_rank, mixer.steps);
  pass.ops->scan(y, ScanInput{mixed, b, read, steps}, mixer.scan, state_rows(mixer, mixer.scan_offset, pass));
  pass.ops->gated(y, all.columns(n_inner, n_inner), y, Activation::silu);
  pass.ops->linear(out, y, mixer.out);
  pass.arena->release(mark);
}

}  // namespace quire
