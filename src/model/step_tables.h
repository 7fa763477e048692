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
// out f32 [n, 1]: each row's largest.
void fill_largest(const Tensor& out, const Tensor& scores);

}  // namespace quire
