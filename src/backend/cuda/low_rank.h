// What adapters add to products, and how their matrices lie in device memory (kernels/low_rank.cuh).
#pragma once
#include <memory>
#include <optional>
#include <span>

#include "backend/cuda/loaded_memory.h"
#include "ops/held_as.h"
#include "ops/operands.h"

namespace quire::cuda {

// How the numbers of an adapter's matrix A are held; nothing: `a` is a matrix of the model.
std::optional<HeldAs> held_as(const Linear& a);

// As Ops::load_low_rank. Any thread.
Result<Buffer> load_low_rank_matrices(const std::shared_ptr<LoadedMemory>& memory,
                                      std::span<const LowRankSource> from,
                                      std::span<LowRank> to);

// Whether any row gets anything.
bool adds_low_rank(const AddedProducts& added);
// y += B·(A·x), as Ops::add_low_rank. `room`: device memory for A·x; what does not fit is done in runs.
void add_low_rank_rows(
    Runtime& runtime, std::span<std::byte> room, const Tensor& y, const Tensor& x, const AddedProducts& added);

// y[i] = row ids[i] of an adapter's matrix A.
void embed_low_rank(Runtime& runtime, const Tensor& y, const int32_t* ids, const Linear& a);

}  // namespace quire::cuda
