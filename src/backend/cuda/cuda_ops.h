// The CUDA backend (docs/backend-cuda.md): Ops on kernels that are tested by emulation and have not run on a device.
#pragma once
#include <memory>

#include "ops/ops.h"

namespace quire {

// Code::unsupported where there is no device, and no emulator was built in its place.
Result<std::unique_ptr<Ops>> make_cuda_ops();

// Code::unsupported where the backend has no kernels for attention of this kind: its codec, keys kept beside a window,
// values that are part of keys. Weights are load_linear's to refuse.
Status check_cuda_has(const AttnParams& layer);

// Bytes that load_linear takes for a weight of this shape.
int64_t cuda_linear_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in);

}  // namespace quire
