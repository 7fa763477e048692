// A plan as index tensors in the step's arena. Rows lie in plan order, a sequence's rows one after another; behind them
// those of branches (Plan::place_branches), each as a sequence of its own.
#pragma once
#include "engine/plan.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace quire {

// Bytes that build_batch takes from the arena at most.
struct BatchSize {
  int64_t n_tokens, n_seqs, n_ctx;
  int block_tokens, n_groups;
  int64_t n_branches = 0;
};
int64_t batch_bytes(const BatchSize& most);

// REQUIRES a grant, and every granted sequence to hold blocks for its tokens and for what these read.
Batch build_batch(const Plan& plan, const KvLayout& layout, int block_tokens, Arena& arena);

}  // namespace quire
