// The parts of a decoder's layer by the other ops, and how they divide their scratch.
#pragma once
#include "ops/ops.h"

namespace quire {

struct AttentionScratch {
  AttentionScratch(const Tensor& scratch, const AttnParams& p)
      : q(scratch.columns(0, int64_t{p.n_heads} * p.k_dim)),
        k(scratch.columns(q.dim(1), int64_t{p.n_kv_heads} * p.k_dim)),
        v(scratch.columns(q.dim(1) + k.dim(1), int64_t{p.n_kv_heads} * p.v_dim)),
        qk(scratch.columns(0, q.dim(1) + k.dim(1))),
        qkv(scratch.columns(0, qk.dim(1) + v.dim(1))),
        mixed(scratch.columns(qkv.dim(1), int64_t{p.n_heads} * p.v_dim)) {}
  Tensor q, k, v;  // [n, heads · dim] each
  Tensor qk, qkv;  // side by side
  Tensor mixed;    // [n, n_heads · v_dim]: values, mixed by attention
  int64_t n_columns() const { return qkv.dim(1) + mixed.dim(1); }
};

// What the unit hides takes the gate's place.
struct FeedForwardScratch {
  FeedForwardScratch(const Tensor& scratch, bool has_gate)
      : gate(scratch.columns(0, has_gate ? scratch.dim(1) / 2 : scratch.dim(1))), hidden(gate) {
    if (has_gate) up = scratch.columns(gate.dim(1), gate.dim(1));
  }
  Tensor gate, up, hidden;  // [n, n_ff] each; of a unit without a gate its only columns are `gate`, and up is empty
};

// Rows on their way into the cache, as kv_write has them, and where they go, i32 [n] each: `tails` may be empty where
// the codec packs no strips.
struct KvRows {
  Tensor k, v, slots, tails;
};

// How many of an op's first parts want their input in the order that the first one wants. REQUIRES one at least.
inline size_t n_same_order(std::span<const Linear> parts) {
  size_t n = 1;
  while (n < parts.size() && parts[n].order.data == parts.front().order.data) ++n;
  return n;
}

// Leaves in.input().
void norm_rows(Ops& ops, const NormedRows& in);

// Puts rows into the cache: kv_write, and of codecs that pack strips (quant/kv_codec.h) to `tails`, the slots of
// params.tail_group; strips of which the last token is among the rows are then packed to their `slots`. REQUIRES all
// other tokens of such a strip to be in its tail.
void store_kv(Ops& ops, const KvRows& rows, const KvView& kv, const AttnParams& params);

// Whether q's and k's norms are of single heads, not of a row's heads together.
inline bool norms_heads(const AttentionPart& part) {
  const int k_dim = part.params->k_dim;
  return (part.q_norm.empty() || part.q_norm.dim(0) == k_dim) && (part.k_norm.empty() || part.k_norm.dim(0) == k_dim);
}

}  // namespace quire
