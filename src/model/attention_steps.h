// Attention by the ops one after the other, for layers that do more to their heads than Ops::attention does. A function
// of values; the engine thread's.
#pragma once
#include <span>

#include "ops/ops.h"

namespace quire {

struct HeadSteps {
  bool turns_first = false;  // heads are rotated before their norms, not after
  // f32 [n, k_dim / 2, 2]: a table of rope that multiplies each row's queries instead of turning them; empty: none.
  Tensor query_factors = {};
  // d → n_heads·v_dim: what of the mixed values goes on, as 1 / (1 + exp(−gate)); none: all. Room for it, [n, that].
  std::span<const Linear> gate = {};
  Tensor gate_room = {};
};

// out as Ops::attention's. REQUIRES norms of single heads, or none.
void attention_steps(Ops& ops, Tensor out, const NormedRows& in, const AttentionPart& part, const HeadSteps& steps);

}  // namespace quire
