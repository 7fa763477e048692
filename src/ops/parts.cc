#include "ops/parts.h"

#include <algorithm>
#include <span>

#include "ops/op_check.h"

namespace quire {

void norm_rows(Ops& ops, const NormedRows& in) {
  const bool is_rms = in.kind == NormKind::rms;
  if (!in.delta.empty()) {
    if (!in.delta_w.empty()) ops.rms_norm(in.delta, in.delta, in.delta_w, in.eps);
    if (is_rms && !in.w.empty()) {
      ops.add_rms_norm(in.normed, in.x, in.delta, in.w, in.eps);
      return;
    }
    ops.add(in.x, in.delta);
  }
  if (in.w.empty()) return;
  if (is_rms) ops.rms_norm(in.normed, in.x, in.w, in.eps);
  if (!is_rms) ops.layer_norm(in.normed, in.x, in.w, in.b, in.eps);
}

namespace {

// Head h of the strip of slot `to`, from its tail.
void pack_strip(int64_t from, int64_t to, int h, const KvView& kv, const AttnParams& params) {
  const AttnParams tail = tail_params(params);
  const KvPlace at = kv_place(kv, tail, from, h), packed = kv_place(kv, params, to, h);
  float rows[kStripTokens * kMaxHeadDim];
  for (int t = 0; t < kStripTokens; ++t) tail.k_codec->get_k(at.k, t, params.k_dim, rows + t * params.k_dim);
  params.k_codec->pack_k(rows, params.k_dim, packed.k);
  for (int t = 0; t < kStripTokens; ++t) tail.v_codec->get_v(at.v, t, params.v_dim, rows + t * params.v_dim);
  params.v_codec->pack_v(rows, params.v_dim, packed.v);
}

}  // namespace

void store_kv(Ops& ops, const KvRows& rows, const KvView& kv, const AttnParams& params) {
  if (!params.k_codec->packs()) return ops.kv_write(rows.k, rows.v, rows.slots, kv, params);
  ops.kv_write(rows.k, rows.v, rows.tails, kv, tail_params(params));
  ops.pack_strips(rows.slots, rows.tails, kv, params);
}

void Ops::pack_strips(Tensor slots, Tensor tails, const KvView& kv, const AttnParams& params) {
  check_pack_strips(slots, tails, kv, params);
  const std::span<const int32_t> to = slots.span<int32_t>(), from = tails.span<int32_t>();
  const auto ends_strip = [](int32_t slot) { return slot % kStripTokens == kStripTokens - 1; };
  if (std::ranges::none_of(to, ends_strip)) return;
  finish();
  each(std::ssize(to) * params.n_kv_heads, [&](int64_t i) {
    const auto row = static_cast<size_t>(i / params.n_kv_heads);
    if (ends_strip(to[row])) pack_strip(from[row], to[row], static_cast<int>(i % params.n_kv_heads), kv, params);
  });
}

Result<Buffer> Ops::load_low_rank(std::span<const LowRankSource>, std::span<LowRank>) {
  return fail(Code::unsupported, describe() + ": this backend computes no adapters");
}

void Ops::add_low_rank(Tensor y, Tensor x, const AddedProducts& added) {
  check_add_low_rank(y, x, added);
  QR_CHECK(added.rows.empty(), "load_low_rank made no such matrices");
}

void Ops::attention(Tensor out, const NormedRows& in, const AttentionPart& part) {
  check_attention(out, in, part);
  const AttentionScratch at(part.scratch, *part.params);
  norm_rows(*this, in);
  linear(at.qkv, in.input(), part.qkv);
  if (!part.adapters.empty()) add_low_rank(at.qkv, in.input(), part.added_qkv());
  if (!part.q_norm.empty()) head_norm(at.q, part.q_norm, in.eps);
  if (!part.k_norm.empty()) head_norm(at.k, part.k_norm, in.eps);
  if (!part.rotation.empty()) rope(at.qk, part.rotation, part.params->k_dim, part.pairs);
  kv_write(at.k, at.v, part.slots, *part.kv, *part.params);
  attend(at.mixed, at.q, *part.kv, *part.meta, *part.params);
  linear(out, at.mixed, part.out);
  if (!part.adapters.empty()) add_low_rank(out, at.mixed, part.added_out());
}

void Ops::feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) {
  check_feed_forward(out, in, part);
  const FeedForwardScratch at(part.scratch, part.gate_up.size() == 2);
  norm_rows(*this, in);
  linear(part.scratch, in.input(), part.gate_up);
  if (!part.adapters.empty()) add_low_rank(part.scratch, in.input(), part.added_gate_up());
  gated(at.hidden, at.gate, at.up, part.activation);
  linear(out, at.hidden, part.down);
  if (!part.adapters.empty()) add_low_rank(out, at.hidden, part.added_down());
}

}  // namespace quire
