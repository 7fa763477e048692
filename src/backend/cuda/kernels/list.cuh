// Every kernel instance that there is, by its name in compiled modules. Each is compiled for every architecture and has
// its rows in the static table (docs/backend-cuda-kernels.md).
#pragma once
#include "backend/cuda/kernels/attention_join.cuh"
#include "backend/cuda/kernels/attention_tensor.cuh"
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/linear_few.cuh"
#include "backend/cuda/kernels/linear_float.cuh"
#include "backend/cuda/kernels/linear_integer.cuh"
#include "backend/cuda/kernels/linear_tensor.cuh"
#include "backend/cuda/kernels/linear_wgmma.cuh"
#include "backend/cuda/kernels/low_rank.cuh"
#include "backend/cuda/kernels/mma_tiles.cuh"
#include "backend/cuda/kernels/norm.cuh"
#include "backend/cuda/kernels/pack_strips.cuh"
#include "backend/cuda/kernels/pick.cuh"
#include "backend/cuda/kernels/quantize.cuh"
#include "backend/cuda/kernels/read.cuh"
#include "backend/cuda/kernels/rotate_cache.cuh"
#include "backend/cuda/kernels/states.cuh"

// Calls X(name, type) for the products and the rows of an integer format.
#define QR_INTEGER(X, name, W)         \
  X(linear_many_##name, LinearMany<W>) \
  X(linear_some_##name, LinearSome<W>) \
  X(linear8_##name, LinearOf8<W>)      \
  X(linear16_##name, LinearOf16<W>)    \
  X(embed_##name, Elementwise<EmbedInteger<W>>)
#define QR_INTEGERS(X)                  \
  QR_INTEGER(X, q8_0, PackedQ8_0)       \
  QR_INTEGER(X, q4_0, PackedQ4_0)       \
  QR_INTEGER(X, q4_1, PackedQ4_1)       \
  QR_INTEGER(X, q5_0, PackedQ5_0)       \
  QR_INTEGER(X, q5_1, PackedQ5_1)       \
  QR_INTEGER(X, q2_k, PackedQ2_K)       \
  QR_INTEGER(X, q3_k, PackedQ3_K)       \
  QR_INTEGER(X, q4_k, PackedQ4_K)       \
  QR_INTEGER(X, q5_k, PackedQ5_K)       \
  QR_INTEGER(X, q6_k, PackedQ6_K)       \
  QR_INTEGER(X, iq4_nl, PackedIQ4_NL)   \
  QR_INTEGER(X, iq4_xs, PackedIQ4_XS)   \
  QR_INTEGER(X, mxfp4, PackedMXFP4)     \
  QR_INTEGER(X, q4_z, PackedQ4_Z)       \
  QR_INTEGER(X, q8_z, PackedQ8_Z)       \
  QR_INTEGER(X, tq, PackedTQ)           \
  QR_INTEGER(X, nvfp4, PackedNVFP4)     \
  QR_INTEGER(X, f4, PackedF4)           \
  QR_INTEGER(X, iq3_xxs, PackedIQ3_XXS) \
  QR_INTEGER(X, iq3_s, PackedIQ3_S)     \
  QR_INTEGER(X, iq2, PackedIQ2)         \
  QR_INTEGER(X, iq2_16, PackedIQ2_16)   \
  QR_INTEGER(X, iq1, PackedIQ1)         \
  QR_INTEGER(X, iq1_16, PackedIQ1_16)

// Where the ring for eight rows does not fit into 99 KiB: compute capability 8.6, 8.9 and 12.0 have no more.
#define QR_SMALL_RINGS(X)                               \
  X(linear8_small_q8_0, LinearOf8Small<PackedQ8_0>)     \
  X(linear8_small_q5_0, LinearOf8Small<PackedQ5_0>)     \
  X(linear8_small_q3_k, LinearOf8Small<PackedQ3_K>)     \
  X(linear8_small_q4_k, LinearOf8Small<PackedQ4_K>)     \
  X(linear8_small_q4_z, LinearOf8Small<PackedQ4_Z>)     \
  X(linear8_small_iq2, LinearOf8Small<PackedIQ2>)       \
  X(linear8_small_iq2_16, LinearOf8Small<PackedIQ2_16>) \
  X(linear8_small_iq1, LinearOf8Small<PackedIQ1>)       \
  X(linear8_small_iq1_16, LinearOf8Small<PackedIQ1_16>)

// The same for one of floats.
#define QR_FLOAT(X, name, W)       \
  X(linear_##name, LinearFloat<W>) \
  X(embed_##name, Elementwise<EmbedFloat<W>>)
#define QR_FLOATS(X)           \
  QR_FLOAT(X, f32, FloatF32)   \
  QR_FLOAT(X, f16, FloatF16)   \
  QR_FLOAT(X, bf16, FloatBF16) \
  QR_FLOAT(X, f8, FloatF8)

// The same for adapters' matrices, by how their numbers are held.
#define QR_LOW_RANK(X, name, W)           \
  X(low_rank_down_##name, LowRankDown<W>) \
  X(low_rank_up_##name, LowRankUp<W>)     \
  X(embed_low_rank_##name, Elementwise<EmbedLowRank<W>>)
#define QR_LOW_RANKS(X)         \
  QR_LOW_RANK(X, f32, FloatF32) \
  QR_LOW_RANK(X, f16, FloatF16) \
  QR_LOW_RANK(X, bf16, FloatBF16)

// The same for a cache's codec: of keys and values that are numbers by themselves, of bytes, of bytes of two forms.
#define QR_CODEC(X, name, C)           \
  X(attend_row_##name, AttendRow<C>)   \
  X(attend_rows_##name, AttendRows<C>) \
  X(attend_wide_row_##name, AttendWideRow<C>)
#define QR_NUMBERS(X, name, C)                    \
  QR_CODEC(X, name, C)                            \
  X(attend_latent_row_##name, AttendLatentRow<C>) \
  X(rotate_cache_##name, Elementwise<RotateAndCache<C>>)
#define QR_BYTES(X, name, C)                      \
  QR_CODEC(X, name, C)                            \
  X(attend_latent_row_##name, AttendLatentRow<C>) \
  X(cache_rows_##name, CacheRows<C>)
#define QR_CODECS(X)             \
  QR_NUMBERS(X, f32, CodecF32)   \
  QR_NUMBERS(X, f16, CodecF16)   \
  QR_NUMBERS(X, bf16, CodecBF16) \
  QR_BYTES(X, q8, CodecQ8)       \
  QR_BYTES(X, f8, CodecF8)       \
  QR_BYTES(X, q4, CodecQ4)       \
  QR_CODEC(X, k8v4, CodecK8V4)   \
  QR_CODEC(X, kivi2, CodecKIVI2) \
  X(cache_rows_k8v4, CacheRows<CodecK8V4>)

// Calls X(name, type) for each of them; types as seen from quire::cuda.
#define QR_KERNELS(X)                                                 \
  QR_INTEGERS(X)                                                      \
  QR_SMALL_RINGS(X)                                                   \
  QR_FLOATS(X)                                                        \
  QR_LOW_RANKS(X)                                                     \
  X(linear_tensor_many, LinearTensorMany)                             \
  X(linear_tensor_few, LinearTensorFew)                               \
  X(linear_wgmma_many, LinearWgmmaMany)                               \
  X(linear_wgmma_some, LinearWgmmaSome)                               \
  X(round_rows, Elementwise<RoundRows>)                               \
  X(embed_tensor, Elementwise<EmbedTensor>)                           \
  X(read_all, ReadAll)                                                \
  X(mma_tiles, MmaTiles)                                              \
  X(quantize, Quantize)                                               \
  X(norm_quantize, NormQuantize)                                      \
  X(norm_row, NormRow)                                                \
  X(quantize_silu, GatedQuantize<Activation::silu>)                   \
  X(quantize_gelu_tanh, GatedQuantize<Activation::gelu_tanh>)         \
  QR_CODECS(X)                                                        \
  X(attend_row_tail, AttendRow<CodecTail>)                            \
  X(attend_wide_row_tail, AttendWideRow<CodecTail>)                   \
  X(pack_strips, Elementwise<PackStrips>)                             \
  X(attend_tensor_row, AttendTensorRow)                               \
  X(attend_tensor_rows, AttendTensorRows)                             \
  X(turn_queries, Elementwise<TurnQueries>)                           \
  X(rotate_queries, RotateQueries)                                    \
  X(attend_join, AttendJoin<Plain>)                                   \
  X(attend_join_bf16, AttendJoin<Flushing>)                           \
  X(rotate_back, RotateBack)                                          \
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
  X(short_conv, StateRowsKernel<ConvRow>)                             \
  X(scan, StateRowsKernel<ScanRow<false>>)                            \
  X(scan_columns, StateRowsKernel<ScanRow<true>>)                     \
  X(delta_rule, StateRowsKernel<DeltaRuleRow>)                        \
  X(wkv6, StateRowsKernel<WkvRow<false>>)                             \
  X(wkv7, StateRowsKernel<WkvRow<true>>)                              \
  X(copy_rows, Elementwise<CopyRows>)                                 \
  X(pick_rows, Elementwise<PickRows>)                                 \
  X(pick_tokens, PickTokens)                                          \
  X(take_picked, Elementwise<TakePicked>)                             \
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
