// Every kernel instance that there is, by its name in compiled modules. Each is compiled for every architecture and has
// its rows in the static table (docs/backend-cuda-kernels.md).
#pragma once
#include "backend/cuda/kernels/attention.cuh"
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/linear_float.cuh"
#include "backend/cuda/kernels/linear_q8_0.cuh"
#include "backend/cuda/kernels/norm.cuh"
#include "backend/cuda/kernels/quantize.cuh"

// Calls X(name, type) for each of them; types as seen from quire::cuda.
#define QR_KERNELS(X)                                                 \
  X(linear_q8_0, LinearQ8_0)                                          \
  X(linear_f32, LinearFloat<float>)                                   \
  X(linear_f16, LinearFloat<uint16_t>)                                \
  X(quantize, Quantize)                                               \
  X(attend_chunk, AttendChunk)                                        \
  X(attend_join, AttendJoin)                                          \
  X(cache_rows, Elementwise<CacheRows>)                               \
  X(rms_norm, RmsNorm)                                                \
  X(layer_norm, LayerNorm)                                            \
  X(add, Elementwise<Add>)                                            \
  X(scale, Elementwise<Scale>)                                        \
  X(scale_rows, Elementwise<ScaleRows>)                               \
  X(soft_cap, Elementwise<SoftCap>)                                   \
  X(gated_silu, Elementwise<Gated<Activation::silu>>)                 \
  X(gated_gelu_tanh, Elementwise<Gated<Activation::gelu_tanh>>)       \
  X(gated_gelu_erf, Elementwise<Gated<Activation::gelu_erf>>)         \
  X(gated_relu2, Elementwise<Gated<Activation::relu2>>)               \
  X(gated_clamped_silu, Elementwise<Gated<Activation::clamped_silu>>) \
  X(gated_sigmoid, Elementwise<Gated<Activation::sigmoid>>)           \
  X(gated_none, Elementwise<Gated<Activation::none>>)                 \
  X(gated_below_zero, Elementwise<Gated<Activation::below_zero>>)     \
  X(pick_rows, Elementwise<PickRows>)                                 \
  X(embed_q8_0, Elementwise<EmbedQ8_0>)                               \
  X(embed_f32, Elementwise<EmbedFloat<float>>)                        \
  X(embed_f16, Elementwise<EmbedFloat<uint16_t>>)                     \
  X(rotate, Elementwise<Rotate>)

namespace quire::cuda {

template <class Kernel>
struct KernelName;
#define QR_NAME(name, Kernel)                             \
  template <>                                             \
  struct KernelName<Kernel> {                             \
    static constexpr const char* kValue = "quire_" #name; \
  };
QR_KERNELS(QR_NAME)
#undef QR_NAME

}  // namespace quire::cuda
