// A plan as index tensors in the step's arena. Rows lie in plan order, a sequence's rows one after another; behind them
// those of branches (Plan::place), each as a sequence of its own.
#pragma once
#include "engine/plan.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace quire {

// Bytes that build_batch, put_ids_from and put_pick_numbers take from the arena at most, with room for as many ids.
struct BatchSize {
  int64_t n_tokens, n_seqs, n_ctx;
  int block_tokens, n_groups;
  int64_t n_branches = 0;
};
int64_t batch_bytes(const BatchSize& most);

// REQUIRES a grant, and every granted sequence to hold blocks for its tokens and for what these read.
Batch build_batch(const Plan& plan, const KvLayout& layout, int block_tokens, Arena& arena);

// Of each row the row of output of the step before that gives its id, −1 where the batch has it; empty where it has
// all. REQUIRES no branches in a plan with such rows.
Tensor put_ids_from(const Plan& plan, Arena& arena);
// Of each row of output what it is picked by (AheadOps::pick). REQUIRES grants without guesses, each with a row of
// output.
Tensor put_pick_numbers(const Plan& plan, Arena& arena);

}  // namespace quire
