#include "ops/op_check.h"

#include <string>

#include "ops/ahead_ops.h"
#include "ops/low_rank.h"
#include "ops/parts.h"
#include "ops/pick.h"
#include "ops/seen_keys.h"
#include "ops/state_sizes.h"
#include "quant/rotation.h"

namespace quire {
namespace {

std::string shape_text(const Tensor& t) {
  std::string out(dtype_name(t.dtype));
  for (int i = 0; i < t.rank; ++i) out += (i == 0 ? " [" : ", ") + std::to_string(t.dim(i));
  return out + "]";
}

void check_matrix(const Tensor& t, DType dtype) {
  QR_CHECK(t.rank == 2 && t.dtype == dtype && t.stride[1] == 1, shape_text(t));
}

void check_index(const Tensor& t) { QR_CHECK(t.rank == 1 && t.dtype == DType::i32 && t.is_dense(), shape_text(t)); }

}  // namespace

void check_embed(const Tensor& y, const Tensor& ids, const Linear& table) {
  check_matrix(y, DType::f32);
  check_index(ids);
  QR_CHECK(y.dim(0) == ids.dim(0) && y.dim(1) == table.n_in, shape_text(y));
  QR_CHECK(table.order.empty());
}

void check_norm(const Tensor& y, const Tensor& x, const Tensor& w) {
  check_same_shape(y, x);
  QR_CHECK(w.rank == 1 && w.dtype == DType::f32 && w.dim(0) == x.dim(1), shape_text(w));
}

void check_layer_norm(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b) {
  check_norm(y, x, w);
  if (!b.empty()) check_norm(y, x, b);
}

void check_gate_rows(const Tensor& x, const Tensor& gate) {
  check_matrix(x, DType::f32);
  check_matrix(gate, DType::f32);
  QR_CHECK(gate.dim(0) == x.dim(0) && gate.dim(1) == 1, shape_text(gate));
}

void check_head_norm(const Tensor& x, const Tensor& w) {
  check_matrix(x, DType::f32);
  QR_CHECK(w.rank == 1 && w.dtype == DType::f32 && w.dim(0) > 0 && x.dim(1) % w.dim(0) == 0, shape_text(w));
}

void check_matrix_f32(const Tensor& x) { check_matrix(x, DType::f32); }

void check_same_shape(const Tensor& a, const Tensor& b) {
  check_matrix(a, DType::f32);
  check_matrix(b, DType::f32);
  QR_CHECK(a.dim(0) == b.dim(0) && a.dim(1) == b.dim(1), shape_text(a) + " and " + shape_text(b));
}

void check_linear(const Tensor& y, const Tensor& x, std::span<const Linear> parts) {
  check_matrix(y, DType::f32);
  check_matrix(x, DType::f32);
  QR_CHECK(y.dim(0) == x.dim(0) && !parts.empty(), shape_text(y));
  int64_t n_out = 0;
  for (const Linear& part : parts) {
    QR_CHECK(part.n_in == x.dim(1), shape_text(x) + " into a weight of " + std::to_string(part.n_in) + " inputs");
    QR_CHECK(part.order.empty() || (part.format->integer && part.order.dim(0) == part.n_in));
    n_out += part.n_out;
  }
  QR_CHECK(y.dim(1) == n_out, shape_text(y));
}

void check_add_low_rank(const Tensor& y, const Tensor& x, const AddedProducts& added) {
  check_matrix(y, DType::f32);
  check_matrix(x, DType::f32);
  QR_CHECK(y.dim(0) == x.dim(0), shape_text(y));
  int64_t end = 0;
  for (const AdapterRows& some : added.rows) {
    QR_CHECK(end <= some.begin && some.begin <= some.end && some.end <= y.dim(0), std::to_string(some.begin));
    end = some.end;
    int64_t n_out = 0;
    for (const LowRank& part : added.of(some)) {
      n_out += part.n_out;
      if (part.empty()) continue;
      QR_CHECK(part.a.n_in == x.dim(1), shape_text(x) + " into a weight of " + std::to_string(part.a.n_in) + " inputs");
      const int64_t n_rows = part.a.n_out + (scales_product(part) ? kScalingRows : 0);
      QR_CHECK(part.b.dim(0) == n_rows && part.b.dim(1) == part.n_out, shape_text(part.b));
    }
    QR_CHECK(n_out == 0 || n_out == y.dim(1), shape_text(y) + " from " + std::to_string(n_out) + " outputs");
  }
}

void check_gated(const Tensor& y, const Tensor& gate, const Tensor& up, Activation act) {
  check_same_shape(y, gate);
  if (!up.empty()) check_same_shape(gate, up);
  QR_CHECK(!up.empty() || act != Activation::clamped_silu);
}

void check_moe(const Tensor& y, const MoeInput& in, const Experts& experts) {
  const auto& [x, router, scratch] = in;
  check_same_shape(y, x);
  check_matrix(router, DType::f32);
  check_matrix(scratch, DType::f32);
  const auto n_experts = static_cast<int64_t>(experts.down.size());
  const int n_used = experts.routing.n_used;
  QR_CHECK(n_experts > 0 && experts.gate_up.size() == experts.down.size());
  QR_CHECK(router.dim(0) == x.dim(0) && router.dim(1) == n_experts, shape_text(router));
  const Routing& routing = experts.routing;
  QR_CHECK(routing.n_expert_groups > 0 && n_experts % routing.n_expert_groups == 0,
           std::to_string(routing.n_expert_groups));
  QR_CHECK(routing.n_expert_groups_used > 0 && routing.n_expert_groups_used <= routing.n_expert_groups);
  QR_CHECK(n_used > 0 && n_used <= n_experts / routing.n_expert_groups * routing.n_expert_groups_used,
           std::to_string(n_used));
  QR_CHECK(experts.has_gate || experts.activation != Activation::clamped_silu);
  QR_CHECK(experts.choice_bias.empty() || experts.choice_bias.n_elements() == n_experts);
  const int64_t n_ff = experts.down.front().n_in;
  QR_CHECK(scratch.dim(0) == x.dim(0) * n_used && scratch.dim(1) == x.dim(1) + 3 * n_ff, shape_text(scratch));
  for (size_t e = 0; e < experts.down.size(); ++e) {
    for (const Linear& part : experts.into(e)) QR_CHECK(part.n_in == x.dim(1) && part.n_out == n_ff);
    QR_CHECK(experts.down[e].n_in == n_ff && experts.down[e].n_out == x.dim(1));
  }
}

void check_rope(const Tensor& x, const Tensor& table, int head_dim) {
  check_matrix(x, DType::f32);
  QR_CHECK(table.rank == 3 && table.dtype == DType::f32 && table.is_dense() && table.dim(2) == 2, shape_text(table));
  QR_CHECK(table.dim(0) == x.dim(0) && 2 * table.dim(1) <= head_dim && x.dim(1) % head_dim == 0, shape_text(x));
}

void check_rope_table(const Tensor& out, const Tensor& pos, const Tensor& freq) {
  check_index(pos);
  QR_CHECK(freq.rank == 1 && freq.dtype == DType::i64, shape_text(freq));
  QR_CHECK(out.rank == 3 && out.dtype == DType::f32 && out.is_dense() && out.dim(0) == pos.dim(0) &&
               out.dim(1) == freq.dim(0) && out.dim(2) == 2,
           shape_text(out));
}

void check_kv_write(const Tensor& k, const Tensor& v, const Tensor& slots, const KvView& kv, const AttnParams& p) {
  check_matrix(k, DType::f32);
  check_index(slots);
  QR_CHECK(p.group >= 0 && p.group < kv.n_groups);
  QR_CHECK(kv.groups[static_cast<size_t>(p.group)].block_tokens % kStripTokens == 0);
  QR_CHECK(k.dim(0) == slots.dim(0) && k.dim(1) == int64_t{p.n_kv_heads} * p.k_dim, shape_text(k));
  QR_CHECK(v.empty() || !p.values_in_keys, shape_text(v));
  if (p.values_in_keys) return;
  check_matrix(v, DType::f32);
  QR_CHECK(v.dim(0) == slots.dim(0) && v.dim(1) == int64_t{p.n_kv_heads} * p.v_dim, shape_text(v));
}

void check_pack_strips(const Tensor& slots, const Tensor& tails, const KvView& kv, const AttnParams& p) {
  check_index(slots);
  check_index(tails);
  QR_CHECK(p.k_codec->packs() && p.k_codec == p.v_codec && !p.values_in_keys);
  QR_CHECK(slots.dim(0) == tails.dim(0), shape_text(tails));
  for (const int group : {p.group, p.tail_group}) {
    QR_CHECK(group >= 0 && group < kv.n_groups);
    QR_CHECK(kv.groups[static_cast<size_t>(group)].block_tokens % kStripTokens == 0);
  }
}

void check_attend(const Tensor& out, const Tensor& q, const AttnMeta& meta, const AttnParams& p) {
  check_matrix(q, DType::f32);
  check_matrix(out, DType::f32);
  check_index(meta.cu_q);
  check_index(meta.first_key);
  check_index(meta.end_key);
  QR_CHECK(p.k_dim <= kMaxHeadDim && p.v_dim <= kMaxHeadDim && p.k_dim > 0 && p.v_dim > 0);
  if (p.values_in_keys) {
    QR_CHECK(p.v_dim <= p.k_dim && (p.k_dim - p.v_dim) % 2 == 0 && p.k_codec == p.v_codec && p.k_codec->values_in_keys);
    QR_CHECK(!p.k_codec->rotates_keys || rotates_last_apart(p.k_dim, p.v_dim), std::to_string(p.k_dim));
  }
  QR_CHECK(p.n_kv_heads > 0 && p.n_heads % p.n_kv_heads == 0);
  QR_CHECK(p.soft_cap >= 0.0F && p.window >= 0 && p.n_kept >= 0 && p.n_kept <= kMostKept);
  QR_CHECK(!p.k_codec->packs() || p.n_kept == 0 || p.window >= kStripTokens, std::to_string(p.window));
  QR_CHECK(p.most_slope_bits >= 0.0F && (p.most_slope_bits == 0.0F || p.n_kept == 0));
  const Tensor& rotation = meta.kept_rotation;
  QR_CHECK(rotation.empty() || (rotation.rank == 3 && rotation.dtype == DType::f32 && rotation.dim(0) == q.dim(0) &&
                                2 * rotation.dim(1) <= p.k_dim && rotation.dim(2) == 2),
           shape_text(rotation));
  QR_CHECK(p.sinks.empty() || (p.sinks.rank == 1 && p.sinks.dtype == DType::f32 && p.sinks.dim(0) == p.n_heads));
  QR_CHECK(q.dim(1) == int64_t{p.n_heads} * p.k_dim && out.dim(1) == int64_t{p.n_heads} * p.v_dim, shape_text(q));
  QR_CHECK(out.dim(0) == q.dim(0) && meta.first_key.dim(0) == q.dim(0) && meta.end_key.dim(0) == q.dim(0));
  const Tensor& blocks = meta.blocks[static_cast<size_t>(p.group)];
  QR_CHECK(blocks.rank == 2 && blocks.dtype == DType::i32 && blocks.dim(0) == meta.cu_q.dim(0) - 1, shape_text(blocks));
}

namespace {

void check_normed_rows(const NormedRows& in) {
  if (!in.w.empty()) check_layer_norm(in.normed, in.x, in.w, in.b);
  QR_CHECK(in.b.empty() || in.kind == NormKind::layer);
  if (!in.delta.empty()) check_same_shape(in.x, in.delta);
  if (!in.delta_w.empty()) check_norm(in.delta, in.delta, in.delta_w);
}

}  // namespace

void check_attention(const Tensor& out, const NormedRows& in, const AttentionPart& part) {
  check_normed_rows(in);
  check_same_shape(out, in.x);
  check_matrix(part.scratch, DType::f32);
  const AttnParams& params = *part.params;
  QR_CHECK(!params.values_in_keys, "this part makes values of their own");
  const AttentionScratch at(part.scratch, params);
  QR_CHECK(part.scratch.dim(0) == in.x.dim(0) && part.scratch.dim(1) == at.n_columns(), shape_text(part.scratch));
  check_linear(at.qkv, in.input(), part.qkv);
  if (!part.q_norm.empty()) check_head_norm(at.q, part.q_norm);
  if (!part.k_norm.empty()) check_head_norm(at.k, part.k_norm);
  const auto is_norm_of = [&](const Tensor& w, const Tensor& x) {
    return w.empty() || w.dim(0) == params.k_dim || w.dim(0) == x.dim(1);
  };
  QR_CHECK(is_norm_of(part.q_norm, at.q), shape_text(part.q_norm));
  QR_CHECK(is_norm_of(part.k_norm, at.k), shape_text(part.k_norm));
  if (!part.rotation.empty()) check_rope(at.qk, part.rotation, params.k_dim);
  check_kv_write(at.k, at.v, part.slots, *part.kv, params);
  check_attend(at.mixed, at.q, *part.meta, params);
  check_linear(out, at.mixed, part.out);
}

void check_feed_forward(const Tensor& out, const NormedRows& in, const FeedForwardPart& part) {
  check_normed_rows(in);
  check_same_shape(out, in.x);
  check_linear(part.scratch, in.input(), part.gate_up);
  const bool has_gate = part.gate_up.size() == 2;
  QR_CHECK(has_gate ? part.gate_up[0].n_out == part.gate_up[1].n_out : part.gate_up.size() == 1);
  QR_CHECK(has_gate || part.activation != Activation::clamped_silu);
  check_linear(out, FeedForwardScratch(part.scratch, has_gate).hidden, part.down);
}

namespace {

// Of n rows.
void check_state_rows(const StateRows& rows, int64_t n) {
  check_index(rows.cu_q);
  check_index(rows.to);
  QR_CHECK(rows.to.dim(0) == n, shape_text(rows.to));
  QR_CHECK(rows.from.dtype == DType::i32 && rows.from.n_elements() == rows.cu_q.dim(0) - 1, shape_text(rows.from));
  QR_CHECK(rows.offset % int64_t{sizeof(float)} == 0 && rows.view.block_bytes % int64_t{sizeof(float)} == 0);
}

void check_numbers(const Tensor& t, int64_t n) {
  QR_CHECK(t.rank == 1 && t.dtype == DType::f32 && t.dim(0) == n, shape_text(t));
}

}  // namespace

void check_short_conv(const Tensor& y, const Tensor& x, const ShortConv& conv, const StateRows& rows) {
  check_same_shape(y, x);
  check_state_rows(rows, x.dim(0));
  check_matrix(conv.w, DType::f32);
  QR_CHECK(conv.w.is_dense() && conv.w.dim(0) >= 1 && conv.w.dim(0) <= kMostTaps && conv.w.dim(1) == x.dim(1),
           shape_text(conv.w));
  if (!conv.b.empty()) check_numbers(conv.b, x.dim(1));
}

void check_scan(const Tensor& y, const ScanInput& in, const ScanParams& p, const StateRows& rows) {
  QR_CHECK(p.n_head_groups > 0 && p.n_heads > 0 && p.n_heads % p.n_head_groups == 0 && p.head_dim > 0);
  QR_CHECK(p.state_dim > 0 && p.state_dim <= kMostStateDim, std::to_string(p.state_dim));
  check_same_shape(y, in.x);
  check_same_shape(in.b, in.c);
  check_matrix(in.dt, DType::f32);
  check_state_rows(rows, in.x.dim(0));
  QR_CHECK(in.x.dim(1) == int64_t{p.n_heads} * p.head_dim, shape_text(in.x));
  QR_CHECK(in.b.dim(0) == in.x.dim(0) && in.b.dim(1) == int64_t{p.n_head_groups} * p.state_dim, shape_text(in.b));
  QR_CHECK(in.dt.dim(0) == in.x.dim(0) && in.dt.dim(1) == p.n_steps(), shape_text(in.dt));
  check_numbers(p.dt_bias, p.n_steps());
  check_numbers(p.d, p.n_steps());
  if (!p.by_component) return check_numbers(p.a, p.n_heads);
  QR_CHECK(p.n_heads == 1 && p.a.rank == 2 && p.a.dtype == DType::f32 && p.a.is_dense(), shape_text(p.a));
  QR_CHECK(p.a.dim(0) == p.state_dim && p.a.dim(1) == p.head_dim, shape_text(p.a));
}

void check_delta_rule(const Tensor& y, const DeltaInput& in, const DeltaParams& p, const StateRows& rows) {
  QR_CHECK(p.n_key_heads > 0 && p.n_heads > 0 && p.n_heads % p.n_key_heads == 0 && p.v_dim > 0);
  QR_CHECK(p.k_dim > 0 && p.k_dim <= kMostStateDim, std::to_string(p.k_dim));
  check_same_shape(y, in.v);
  check_same_shape(in.q, in.k);
  check_matrix(in.dt, DType::f32);
  check_matrix(in.beta, DType::f32);
  check_state_rows(rows, in.v.dim(0));
  QR_CHECK(in.v.dim(1) == int64_t{p.n_heads} * p.v_dim, shape_text(in.v));
  QR_CHECK(in.k.dim(0) == in.v.dim(0) && in.k.dim(1) == int64_t{p.n_key_heads} * p.k_dim, shape_text(in.k));
  QR_CHECK(in.dt.dim(0) == in.v.dim(0) && in.dt.dim(1) == p.n_fades(), shape_text(in.dt));
  QR_CHECK(in.beta.dim(0) == in.v.dim(0) && in.beta.dim(1) == p.n_heads, shape_text(in.beta));
  check_numbers(p.dt_bias, p.n_fades());
  check_numbers(p.a, p.n_heads);
}

void check_wkv(const Tensor& y, const Tensor& own, const WkvInput& in, const WkvParams& p, const StateRows& rows) {
  QR_CHECK(p.n_heads > 0 && p.dim > 0 && p.dim <= kMostStateDim, std::to_string(p.dim));
  const int64_t d = int64_t{p.n_heads} * p.dim;
  QR_CHECK(y.dim(1) == d, shape_text(y));
  for (const Tensor* each : {&own, &in.r, &in.k, &in.v, &in.decay}) check_same_shape(y, *each);
  check_state_rows(rows, y.dim(0));
  check_numbers(p.bonus, d);
  QR_CHECK(in.rate.empty() != p.has_rate() && p.rate_share.empty() != p.has_rate());
  if (!p.has_rate()) return;
  check_same_shape(y, in.rate);
  check_numbers(p.removal_scale, d);
  check_numbers(p.rate_share, d);
}

void check_rows(const Tensor& y, const Tensor& x, const Tensor& ids) {
  check_matrix(y, DType::f32);
  check_matrix(x, DType::f32);
  check_index(ids);
  QR_CHECK(y.dim(0) == ids.dim(0) && y.dim(1) == x.dim(1), shape_text(y));
}

void check_pick(const Tensor& picked, const Tensor& logits, const Tensor& numbers) {
  check_index(picked);
  check_matrix(numbers, DType::i32);
  QR_CHECK(numbers.dim(0) == logits.dim(0) && numbers.dim(1) == kPickNumbers && numbers.is_dense(),
           shape_text(numbers));
  check_matrix(logits, DType::f32);
  QR_CHECK(picked.dim(0) >= logits.dim(0) && logits.dim(1) > 0, shape_text(logits));
}

void check_send(const StepRows& to, const StepRows& from) {
  check_same_shape(to.logits, from.logits);
  check_index(to.picked);
  check_index(from.picked);
  const int64_t n = to.logits.dim(0);
  QR_CHECK(to.logits.is_dense() && to.picked.dim(0) == n && from.picked.dim(0) == n, shape_text(to.picked));
}

void check_take_picked(const Tensor& out, const Tensor& ids, const Tensor& picked, const Tensor& from) {
  for (const Tensor* t : {&out, &ids, &picked, &from}) check_index(*t);
  QR_CHECK(out.dim(0) == ids.dim(0) && out.dim(0) == from.dim(0), shape_text(out));
}

void check_sample(const Tensor& logits, size_t n_out, size_t n_params) {
  check_matrix(logits, DType::f32);
  QR_CHECK(static_cast<size_t>(logits.dim(0)) == n_out && n_out == n_params, shape_text(logits));
}

}  // namespace quire
