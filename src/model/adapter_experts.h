// What adapters add to a layer's experts, to the unit beside them and to the router: each has an entry of
// Adapter::layers, with what is added to its gate and up and to its down. Behind the entry of the ends
// (model/adapter_ends.h) stand all layers' units that all rows go to, with the routers, then all layers' experts; of an
// adapter that adds to none the list ends before.
#pragma once
#include <vector>

#include "model/pass.h"
#include "ops/ops.h"

namespace quire {

// Of layer l: the entry of the unit that all rows go to, and of the first expert.
inline int shared_unit_entry(int n_layers, int l) { return n_layers + 1 + l; }
inline int first_expert_entry(int n_layers, int n_experts, int l) { return 2 * n_layers + 1 + l * n_experts; }

// Of a unit that all rows go to: how much of it each row takes, and, in the same entry, the layer's router. Such a unit
// has no attention.
inline constexpr std::vector<LowRank> AdapterLayer::* kUnitGate = &AdapterLayer::attn_gate;
inline constexpr std::vector<LowRank> AdapterLayer::* kRouter = &AdapterLayer::qkv;

// Ops::moe, and for rows whose adapter adds to experts, expert after expert, what that adds. `first`: the first
// expert's entry. A row gets what it gets alone: others' rows are another call.
void run_experts(const Tensor& out, const MoeInput& in, const Experts& experts, int first, const Pass& pass);

// To y, a product of x [n, n_in] of such a unit's or the router's, what adapters add to it.
void add_beside_experts(
    const Tensor& y, const Tensor& x, int entry, std::vector<LowRank> AdapterLayer::* product, const Pass& pass);

}  // namespace quire
