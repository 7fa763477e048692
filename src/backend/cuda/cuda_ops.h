// The CUDA backend (docs/backend-cuda.md).
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "ops/ops.h"
#include "ops/sample_row.h"

namespace quire {

// portable: the CPU's bits. tensor: products of BF16 weights and attention over BF16 caches by bf16 mma, with bits of
// their own (docs/numerics.md, "Tensor arithmetic"); all else is as in portable.
enum class CudaArithmetic : uint8_t { portable, tensor };

// One at a time in a process, which has one device. Code::unsupported where there is none, and no emulator was built in
// its place. `sums`: what the host samples by.
Result<std::unique_ptr<Ops>> make_cuda_ops(const SampleKernels& sums, CudaArithmetic arithmetic);

// Code::unsupported where the backend has no kernels for the codec of one of these; a layer with a state has none.
// Weights are load_linear's to refuse.
Status check_cuda_has(std::span<const AttnParams> attention);

// Bytes of the device's memory that are left for weights, cache and activations; −1: there is no device, and
// make_cuda_ops says why.
int64_t cuda_free_bytes();

// Bytes that load_linear takes for a weight of this shape.
int64_t cuda_linear_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in);

}  // namespace quire
