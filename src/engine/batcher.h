// A plan as index tensors in the step's arena. Rows lie in plan order, a sequence's rows one after another.
#pragma once
#include "engine/plan.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace quire {

// Bytes that build_batch takes from the arena at most.
int64_t batch_bytes(int64_t n_tokens, int64_t n_seqs, int64_t n_ctx, int block_tokens);

// REQUIRES every granted sequence to hold blocks for its tokens.
Batch build_batch(const Plan& plan, int block_tokens, Arena& arena);

}  // namespace quire
