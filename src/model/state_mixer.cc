#include "model/state_mixer.h"

#include <algorithm>
#include <cmath>

#include "model/column_mixer.h"
#include "model/delta_mixer.h"
#include "ops/parts.h"
#include "ops/state_sizes.h"

namespace quire {
namespace {

constexpr int64_t kLine = 64;  // a layer's claims begin on cache lines

int64_t lines(int64_t n_floats) { return (n_floats * 4 + kLine - 1) / kLine * kLine; }

// The columns of each head group on their own.
void norm_head_groups(const Tensor& y, const Tensor& w, int n_head_groups, float eps, Ops& ops) {
  const int64_t n = y.dim(1) / n_head_groups;
  for (int64_t at = 0; at < y.dim(1); at += n) {
    const Tensor columns = y.columns(at, n);
    ops.rms_norm(columns, columns, Tensor::dense(w.ptr<float>() + at, DType::f32, {n}), eps);
  }
}

// dt [n, n_heads] of a scan: what is added to dt_bias such that no step is shorter than `least`.
void raise_steps(const Tensor& dt, const Tensor& dt_bias, float least) {
  const double lowest = std::log(std::expm1(static_cast<double>(least)));
  for (int64_t i = 0; i < dt.dim(0); ++i) {
    for (int64_t h = 0; h < dt.dim(1); ++h) {
      float& step = dt.row<float>(i)[h];
      step = std::max(step, static_cast<float>(lowest - static_cast<double>(dt_bias.ptr<float>()[h])));
    }
  }
}

// all [n, gate | x | b | c | steps].
void scale_columns(const Tensor& all, const StateConfig& config, Ops& ops) {
  const int64_t n_shared = int64_t{config.n_head_groups} * config.state_dim;
  const StateScales& by = config.scales;
  const std::pair<int64_t, float> parts[] = {{config.n_inner(), by.gate},
                                             {config.n_inner(), by.x},
                                             {n_shared, by.b},
                                             {n_shared, by.c},
                                             {config.n_heads, by.steps}};
  int64_t at = 0;
  for (const auto& [n, factor] : parts) {
    if (factor != 1.0F) ops.scale(all.columns(at, n), factor);
    at += n;
  }
}

Status must_divide(const ModelFile& file, const std::string& key, int64_t value, const std::string& whole, int64_t n) {
  if (n % value == 0) return {};
  return fail(Code::corrupt, "key " + file.meta.shown(key) + ": must divide " + file.meta.shown(whole) + ", which is " +
                                 std::to_string(n) + ", is " + std::to_string(value));
}

}  // namespace

StateRows state_rows(const StateMixer& mixer, int64_t offset, const Pass& pass) {
  const auto group = static_cast<size_t>(mixer.group);
  return {pass.batch->attn.cu_q, pass.batch->attn.blocks[group], pass.batch->slots[group], pass.kv.groups[group],
          offset};
}

Status read_state_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config) {
  StateConfig& c = config.state;
  const auto read = [&](const char* name, int64_t lo, int64_t hi, int& out) -> Status {
    QR_TRY(const int64_t value, file.meta.get_int(prefix + name, lo, hi));
    out = static_cast<int>(value);
    return {};
  };
  int n_inner = 0;
  QR_TRY_VOID(read("ssm.conv_kernel", 1, kMostTaps, c.n_taps));
  QR_TRY_VOID(read("ssm.state_size", 1, kMostStateDim, c.state_dim));
  QR_TRY_VOID(read("ssm.inner_size", 1, 1 << 20, n_inner));
  QR_TRY_VOID(read("ssm.time_step_rank", 1, 4096, c.n_heads));
  QR_TRY_VOID(read("ssm.group_count", 1, 4096, c.n_head_groups));
  QR_TRY_VOID(must_divide(file, prefix + "ssm.time_step_rank", c.n_heads, prefix + "ssm.inner_size", n_inner));
  QR_TRY_VOID(must_divide(file, prefix + "ssm.group_count", c.n_head_groups, prefix + "ssm.time_step_rank", c.n_heads));
  c.head_dim = n_inner / c.n_heads;
  return {};
}

Status read_conv_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config) {
  QR_TRY(const int64_t n_taps, file.meta.get_int(prefix + "shortconv.l_cache", 1, kMostTaps));
  config.state.n_taps = static_cast<int>(n_taps);
  config.state.n_channels = config.n_embd;
  return {};
}

void claim_state(const StateConfig& c, KvLayout& layout, StateMixer& mixer) {
  const int64_t n_columns = c.n_channels > 0 ? c.n_channels : c.n_conv();
  const int64_t conv_bytes = lines(int64_t{c.n_taps - 1} * n_columns);
  const int64_t scan_bytes = lines(int64_t{c.n_heads} * c.state_dim * c.head_dim);
  const KvClaim claim = layout.claim_state(conv_bytes + scan_bytes);
  mixer.group = claim.group;
  mixer.conv_offset = claim.offset;
  mixer.scan_offset = claim.offset + conv_bytes;
}

namespace {

void load_conv(WeightLoader& load, const DecoderConfig& config, StateMixer& mixer) {
  const int n = config.state.n_channels;
  load.linear(mixer.in, "shortconv.in_proj", 3 * int64_t{n}, config.n_embd);
  load.load_transposed(mixer.conv.w, "shortconv.conv.weight", n, config.state.n_taps);
  if (load.has("shortconv.conv.bias")) load.vector(mixer.conv.b, "shortconv.conv.bias", n);
  load.linear(mixer.out, "shortconv.out_proj", config.n_embd, n);
}

void run_conv(Tensor out, const StateMixer& mixer, const StateConfig& c, const NormedRows& in, const Pass& pass) {
  const int64_t n = in.x.dim(0), d = c.n_channels;
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, 3 * d);  // [n, gate | gate | x]
  const Tensor x = all.columns(2 * d, d);
  norm_rows(*pass.ops, in);
  pass.ops->linear(all, in.input(), mixer.in);
  pass.ops->gated(x, all.columns(0, d), x, Activation::none);
  pass.ops->short_conv(x, x, mixer.conv, state_rows(mixer, mixer.conv_offset, pass));
  pass.ops->gated(x, all.columns(d, d), x, Activation::none);
  pass.ops->linear(out, x, mixer.out);
  pass.arena->release(mark);
}

}  // namespace

void load_state_mixer(WeightLoader& load, const DecoderConfig& config, StateMixer& mixer) {
  const StateConfig& c = config.state;
  if (c.n_channels > 0) return load_conv(load, config, mixer);
  if (c.has_delta_rule) return load_delta_mixer(load, config, mixer);
  if (c.n_step_rank > 0) return load_column_mixer(load, config, mixer);
  load.linear(mixer.in, "ssm_in", c.n_inner() + c.n_conv() + c.n_heads, config.n_embd);
  load.load_transposed(mixer.conv.w, "ssm_conv1d.weight", c.n_conv(), c.n_taps);
  if (load.has("ssm_conv1d.bias")) load.vector(mixer.conv.b, "ssm_conv1d.bias", c.n_conv());
  mixer.scan.n_heads = c.n_heads;
  mixer.scan.head_dim = c.head_dim;
  mixer.scan.n_head_groups = c.n_head_groups;
  mixer.scan.state_dim = c.state_dim;
  load.vector(mixer.scan.dt_bias, "ssm_dt.bias", c.n_heads);
  load.numbers(mixer.scan.a, "ssm_a", c.n_heads);
  load.numbers(mixer.scan.d, "ssm_d", c.n_heads);
  if (c.has_norm) load.numbers(mixer.norm, "ssm_norm.weight", c.n_inner());
  load.linear(mixer.out, "ssm_out", config.n_embd, c.n_inner());
}

int64_t state_mixer_row_floats(const StateConfig& c) {
  if (c.n_channels > 0) return Arena::row_stride(3 * int64_t{c.n_channels});
  if (c.has_delta_rule) return delta_mixer_row_floats(c);
  if (c.n_step_rank > 0) return column_mixer_row_floats(c);
  return c.n_heads == 0 ? 0
                        : Arena::row_stride(c.n_inner() + c.n_conv() + c.n_heads) + Arena::row_stride(c.n_conv()) +
                              Arena::row_stride(c.n_inner());
}

void run_state_mixer(
    Tensor out, const StateMixer& mixer, const StateConfig& c, const NormedRows& in, const Pass& pass) {
  if (c.n_channels > 0) return run_conv(out, mixer, c, in, pass);
  if (c.has_delta_rule) return run_delta_mixer(out, mixer, c, in, pass);
  if (c.n_step_rank > 0) return run_column_mixer(out, mixer, c, in, pass);
  const int64_t n = in.x.dim(0), n_inner = c.n_inner(), n_conv = c.n_conv();
  const int64_t n_shared = int64_t{c.n_head_groups} * c.state_dim;
  const auto mark = pass.arena->mark();
  const Tensor all = pass.arena->alloc_rows(n, n_inner + n_conv + c.n_heads);  // [n, gate | x, b, c | steps]
  const Tensor mixed = pass.arena->alloc_rows(n, n_conv);                      // [n, x | b | c]
  const Tensor y = pass.arena->alloc_rows(n, n_inner);                         // [n, n_inner]
  norm_rows(*pass.ops, in);
  pass.ops->linear(all, in.input(), mixer.in);
  scale_columns(all, c, *pass.ops);
  pass.ops->short_conv(mixed, all.columns(n_inner, n_conv), mixer.conv, state_rows(mixer, mixer.conv_offset, pass));
  pass.ops->gated(mixed, mixed, {}, Activation::silu);
  const ScanInput scanned{mixed.columns(0, n_inner), mixed.columns(n_inner, n_shared),
                          mixed.columns(n_inner + n_shared, n_shared), all.columns(n_inner + n_conv, c.n_heads)};
  if (c.least_step > 0) {
    pass.ops->finish();
    raise_steps(scanned.dt, mixer.scan.dt_bias, c.least_step);
  }
  pass.ops->scan(y, scanned, mixer.scan, state_rows(mixer, mixer.scan_offset, pass));
  pass.ops->gated(y, all.columns(0, n_inner), y, Activation::silu);
  if (c.has_norm) norm_head_groups(y, mixer.norm, c.n_head_groups, c.norm_eps > 0 ? c.norm_eps : in.eps, *pass.ops);
  pass.ops->linear(out, y, mixer.out);
  if (c.scales.found != 1.0F) pass.ops->scale(out, c.scales.found);
  pass.arena->release(mark);
}

}  // namespace quire
