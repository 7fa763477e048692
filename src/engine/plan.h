// What one step does: who gets how many of its next pending tokens. Remade each step; the sequences it names stay where
// they are until it is committed.
#pragma once
#include <vector>

#include "engine/sequence.h"
#include "engine/step_cost.h"

namespace quire {

struct Grant {
  Sequence* seq = nullptr;
  int n_tokens = 0;
  bool wants_output = false;  // the grant reaches the last pending token, so the next one can be sampled
};

struct Plan {
  std::vector<Grant> grants;
  int n_tokens = 0, n_out = 0;
  StepShape shape;
};

}  // namespace quire
