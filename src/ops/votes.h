// What attention weighs: rows vote for the keys that they look at, so that a sequence can keep those of its blocks that
// matter and drop the others (engine/budget.h). Beside the ops, not one of them: plain arithmetic of one definition for
// all backends whose cache the host reaches, so a vote has the same bits everywhere (docs/numerics.md, "Votes").
// Source: SnapKV (Li et al., 2024), whose votes of single tokens are pooled over neighbours; here over whole blocks.
#pragma once
#include <cstdint>
#include <span>

#include "ops/ops.h"

namespace quire {

inline constexpr int64_t kWholeVote = int64_t{1} << 30;  // what one head of one row has to give

// Rows [begin, end) of a batch, of its sequence number `seq`, and where their votes are added up: one number for each
// block of the sequence, as many as the rows see at least. Memory of the host that outlives the step.
struct VotingRows {
  int64_t seq = 0, begin = 0, end = 0;
  int64_t* votes = nullptr;
};

// Each head of each of these rows divides kWholeVote among the blocks as its attention does: votes[b] += the sum over
// its keys in block b of softmax(scale · q · k), in units, rounded down. Sums of whole numbers: no order matters.
//   q [n, n_heads · k_dim] as it meets part.kv, which has the keys of these rows; of the part meta and params count
//   too.
// REQUIRES blocks that the host can read, codecs that pack no strips, no keys kept beside a window, no slopes. A key
// that is not finite takes no part. Sinks that a layer has learned are not counted. Finishes the ops before it.
void count_votes(Ops& ops, const Tensor& q, const AttentionPart& part, std::span<const VotingRows> rows);

}  // namespace quire
