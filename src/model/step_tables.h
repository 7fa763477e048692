// What a step's rows are told beside their rotation, by position. Tables are the host's, in the arena; the engine
// thread's.
#pragma once
#include <cstdint>

#include "model/config.h"
#include "tensor/tensor.h"

namespace quire {

// out f32 [n, dim / 2, 2]: a table of rope that multiplies a row of heads by what `scale` says of its position, or of
// `last` where it stands behind that. pos i32 [n].
void fill_query_factors(const Tensor& out, const QueryScale& scale, const Tensor& pos, int32_t last);
// out i32 [n]: the first key of the row's own chunk, or first_key [n] where that is behind it. pos i32 [n].
void fill_chunk_starts(const Tensor& out, int chunk, const Tensor& pos, const Tensor& first_key);
// gates f32 [n, n_ff]: of each row what is above its mean + cutoff · its deviation, less that; else 0. In double.
void keep_above(const Tensor& gates, double cutoff);
// Scores f32 [n, n_experts] become those whose sigmoids are the shares of a row's two experts (SparseMixer; Liu et al.
// 2024, arXiv:2409.12136), and −∞ of the others. The first is the best, the second the best of the rest; the share of
// each is its softmax over those, it and behind it, that lie within 2 · jitter of it, relative to the larger magnitude.
void mix_sparsely(const Tensor& scores, float jitter);
// Scores f32 [n, n_experts] become those whose sigmoids, times `scale`, are the shares of a row's experts, and −∞ of
// the others: softmaxes of the n_used largest, each times its expert's gain, 0 < gain ≤ scale.  gains f32 [n_experts].
void gain_shares(const Tensor& scores, int n_used, const Tensor& gains, float scale);
// x [n, d]: numbers beyond ± cut become that; what is no number stays.
void cut_rows(const Tensor& x, float cut);
// out f32 [n, 1]: each row's largest.
void fill_largest(const Tensor& out, const Tensor& scores);

}  // namespace quire
