// The shape rules of every op, checked once at its door; a violation is a bug of the caller and aborts with values.
// Past these checks an op is total. Both backends call them.
#pragma once
#include <span>

#include "ops/ops.h"

namespace quire {

void check_embed(const Tensor& y, const Tensor& ids, const Linear& table);
void check_norm(const Tensor& y, const Tensor& x, const Tensor& w);
void check_layer_norm(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b);
void check_gate_rows(const Tensor& x, const Tensor& gate);
void check_head_norm(const Tensor& x, const Tensor& w);
void check_matrix_f32(const Tensor& x);
void check_same_shape(const Tensor& a, const Tensor& b);
void check_linear(const Tensor& y, const Tensor& x, std::span<const Linear> parts);
void check_add_low_rank(const Tensor& y, const Tensor& x, const AddedProducts& added);
void check_gated(const Tensor& y, const Tensor& gate, const Tensor& up, Activation act);
void check_moe(const Tensor& y, const MoeInput& in, const Experts& experts);
void check_rope(const Tensor& x, const Tensor& table, int head_dim);
void check_rope_table(const Tensor& out, const Tensor& pos, const Tensor& freq);
void check_kv_write(const Tensor& k, const Tensor& v, const Tensor& slots, const KvView& kv, const AttnParams& params);
void check_pack_strips(const Tensor& slots, const Tensor& tails, const KvView& kv, const AttnParams& params);
void check_attend(const Tensor& out, const Tensor& q, const AttnMeta& meta, const AttnParams& params);
void check_attention(const Tensor& out, const NormedRows& in, const AttentionPart& part);
void check_feed_forward(const Tensor& out, const NormedRows& in, const FeedForwardPart& part);
void check_short_conv(const Tensor& y, const Tensor& x, const ShortConv& conv, const StateRows& rows);
void check_scan(const Tensor& y, const ScanInput& in, const ScanParams& params, const StateRows& rows);
void check_delta_rule(const Tensor& y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows);
void check_wkv(const Tensor& y, const Tensor& own, const WkvInput& in, const WkvParams& params, const StateRows& rows);
void check_rows(const Tensor& y, const Tensor& x, const Tensor& ids);
void check_pick(const Tensor& picked, const Tensor& logits, const Tensor& numbers);
struct StepRows;
void check_send(const StepRows& to, const StepRows& from);
void check_take_picked(const Tensor& out, const Tensor& ids, const Tensor& picked, const Tensor& from);
void check_sample(const Tensor& logits, size_t n_out, size_t n_params);

// Bytes that one token's key and value of a head take.
struct HeadBytes {
  int64_t k, v;
};
inline HeadBytes head_bytes(const AttnParams& params) {
  return {params.k_codec->k_row_bytes(params.k_dim),
          params.values_in_keys ? 0 : params.v_codec->v_row_bytes(params.v_dim)};
}

// Where one head's K and V lie inside a layer's claim, in bytes from the claim's start within a block. Of values that
// are components of keys v is the end of K.
struct HeadOffsets {
  int64_t k, v;
};
inline HeadOffsets head_offsets(const AttnParams& params, int head, int block_tokens) {
  const HeadBytes bytes = head_bytes(params);
  const int64_t k = head * (bytes.k + bytes.v) * block_tokens;
  return {k, k + bytes.k * block_tokens};
}

// Where one token's K and V (if any is stored) of a head go: the strips of its slot, and the position within them
// (quant/kv_codec.h).
struct KvPlace {
  std::byte* k;
  std::byte* v;
  int t;
};
inline KvPlace kv_place(const KvView& kv, const AttnParams& params, int64_t slot, int head) {
  const KvGroupView& view = kv.groups[static_cast<size_t>(params.group)];
  const int64_t in_block = slot % view.block_tokens;
  const int t = static_cast<int>(in_block % kStripTokens);
  const HeadOffsets at = head_offsets(params, head, view.block_tokens);
  std::byte* claim = view.base + slot / view.block_tokens * view.block_bytes + params.kv_offset * view.block_tokens;
  const HeadBytes bytes = head_bytes(params);
  return {claim + at.k + (in_block - t) * bytes.k, claim + at.v + (in_block - t) * bytes.v, t};
}

// Where and how rows lie whose strip is not packed yet, as a layer of its own. REQUIRES codecs that pack.
inline AttnParams tail_params(const AttnParams& params) {
  AttnParams out = params;
  out.k_codec = out.v_codec = find_kv_codec(params.k_codec->tail);
  out.group = params.tail_group;
  out.kv_offset = params.tail_offset;
  return out;
}

}  // namespace quire
