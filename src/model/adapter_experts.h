// What adapters add to a layer's experts: each expert has an entry of Adapter::layers, with what is added to its gate
// and up and to its down, layer by layer behind the entry of the ends (model/adapter_ends.h); of an adapter that adds
// to no expert the list ends before them.
#pragma once
#include "model/pass.h"
#include "ops/ops.h"

namespace quire {

// The entry of the first expert of layer l.
inline int first_expert_entry(int n_layers, int n_experts, int l) { return n_layers + 1 + l * n_experts; }

// Ops::moe, and for rows whose adapter adds to experts, expert after expert, what that adds. `first`: the first
// expert's entry. A row gets what it gets alone: others' rows are another call.
void run_experts(const Tensor& out, const MoeInput& in, const Experts& experts, int first, const Pass& pass);

}  // namespace quire
