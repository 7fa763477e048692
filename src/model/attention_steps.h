// Attention by the ops one after the other, for layers that do more to their heads than Ops::attention does. A function
// of values; the engine thread's.
#pragma once
#include <span>

#include "model/pass.h"

namespace quire {

struct HeadSteps {
  bool turns_first = false;  // heads are rotated before their norms, not after
  // f32 [n, k_dim / 2, 2]: a table of rope that multiplies each row's queries instead of turning them; empty: none.
  Tensor query_factors = {};
  // d → n_heads·v_dim, or n_heads of a head's values together: what of the mixed values goes on, as 1 / (1 +
  // exp(−gate)); none: all. Room for it, [n, that].
  std::span<const Linear> gate = {};
  Tensor gate_room = {};
  Tensor v_norm = {};       // [v_dim]: of single heads' values; empty: none
  Tensor mixed_norm = {};   // [n_heads·v_dim]: of all mixed values of a row; empty: none
  bool only_reads = false;  // AttentionPart::qkv has queries alone: another layer has written keys and values
  float cut = 0.0F;         // > 0: queries, keys and values are cut at ± this, before all else
  // Whether Ops::attention does not do all of it.
  bool any() const {
    return turns_first || only_reads || !query_factors.empty() || !gate.empty() || !v_norm.empty() ||
           !mixed_norm.empty() || cut > 0.0F;
  }
};

// Whether the batch or the codec wants more of a layer than Ops::attention does.
inline bool needs_steps(const Batch& batch, const AttnParams& params) {
  return !batch.again.empty() || !batch.voting.empty() || params.k_codec->packs();
}

// Columns of AttentionPart::scratch.
inline int64_t attention_width(const AttnParams& p) {
  return (int64_t{p.n_heads} + p.n_kv_heads) * (p.k_dim + p.v_dim);
}

// mixed [n, n_heads·v_dim]: every head times 1 / (1 + exp(−its gate)).  gates [n, n_heads].
void gate_heads(Ops& ops, const Tensor& mixed, const Tensor& gates);

// out as Ops::attention's, bit for bit where no step is asked for; keys and values go where the pass's batch says.
// REQUIRES norms of single heads, or none.
void attention_steps(
    const Pass& pass, Tensor out, const NormedRows& in, const AttentionPart& part, const HeadSteps& steps);

}  // namespace quire
