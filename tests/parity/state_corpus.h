// Shapes of layers that keep a state, for the tests of every backend.
#pragma once
#include "ops/ops.h"

namespace quire {

struct StateShape {
  int n_heads, head_dim, n_head_groups, state_dim, n_taps;
  int64_t n_inner() const { return int64_t{n_heads} * head_dim; }
  int64_t scan_floats() const { return n_inner() * state_dim; }
  // Of a delta rule, whose key heads are as a scan's head groups and whose keys are as deep as its states.
  int64_t n_keys() const { return int64_t{n_head_groups} * state_dim; }
  int64_t n_fades(bool by_component) const { return by_component ? int64_t{n_heads} * state_dim : n_heads; }
};

// But for its tensors. What does not fade by component shares keys in turn.
inline DeltaParams delta_params(const StateShape& shape, bool by_component) {
  DeltaParams out;
  out.n_heads = shape.n_heads;
  out.n_key_heads = shape.n_head_groups;
  out.k_dim = shape.state_dim;
  out.v_dim = shape.head_dim;
  out.fades_by_component = by_component;
  out.shares_in_turn = !by_component;
  out.beta_scale = by_component ? 1.0F : 2.0F;
  return out;
}

}  // namespace quire
