#include "backend/cuda/integer_formats.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "backend/cuda/kernels/list.cuh"
#include "quant/weights/f4_64.h"
#include "quant/weights/iq1_m.h"
#include "quant/weights/iq1_s.h"
#include "quant/weights/iq2_s.h"
#include "quant/weights/iq2_xs.h"
#include "quant/weights/iq2_xxs.h"
#include "quant/weights/iq3_s.h"
#include "quant/weights/iq3_xxs.h"
#include "quant/weights/iq4_nl.h"
#include "quant/weights/iq4_xs.h"
#include "quant/weights/mxfp4.h"
#include "quant/weights/nvfp4.h"
#include "quant/weights/q2_k.h"
#include "quant/weights/q3_k.h"
#include "quant/weights/q4_0.h"
#include "quant/weights/q4_1.h"
#include "quant/weights/q4_k.h"
#include "quant/weights/q4_z128.h"
#include "quant/weights/q4_z32.h"
#include "quant/weights/q5_0.h"
#include "quant/weights/q5_1.h"
#include "quant/weights/q5_k.h"
#include "quant/weights/q6_k.h"
#include "quant/weights/q8_0.h"
#include "quant/weights/q8_z32.h"
#include "quant/weights/tq1_0.h"
#include "quant/weights/tq2_0.h"

namespace quire::cuda {
namespace {

constexpr uint16_t kSign = 0x8000;

// Of up to 256 numbers of a row what a stage holds: numbers as stored, halves and bytes in their order there.
struct Parts {
  uint8_t q[kPackedDepth] = {};
  uint16_t halves[2 * kPackedBlocks] = {};
  uint8_t bytes[2 * 16] = {};
};

// Block number b of 32, from a stored block of them.
void take(const Q8_0& /*format*/, const std::byte* block, int b, Parts& parts) {
  parts.halves[b] = load_as<uint16_t>(block);
  std::memcpy(parts.q + 32 * b, block + 2, 32);
}

template <class T, class Levels, class Numbers, bool kMins>
void take(const BlockFormat<T, Levels, Numbers, kMins>& /*format*/, const std::byte* block, int b, Parts& parts) {
  BlockParts of{};
  T::split(block, of);
  std::memcpy(parts.q + 32 * b, of.q, 32);
  parts.halves[b] = of.d;
  if constexpr (kMins) parts.halves[kPackedBlocks + b] = of.m;
}

template <class T, class Levels, class Numbers, int kScaleGroup, SubScale kSub>
void take(const KFormat<T, Levels, Numbers, kScaleGroup, kSub>& /*format*/,
          const std::byte* block,
          int /*b*/,
          Parts& parts) {
  constexpr int kScaleGroups = kPackedDepth / kScaleGroup;
  KParts of{};
  T::split(block, of);
  std::memcpy(parts.q, of.q, sizeof of.q);
  parts.halves[0] = of.d;
  std::memcpy(parts.bytes, of.scale, kScaleGroups);
  if constexpr (kSub == SubScale::only) return;
  parts.halves[1] = static_cast<uint16_t>(of.dmin ^ kSign);
  std::memcpy(parts.bytes + kScaleGroups, of.min, kScaleGroups);
}

// A byte is the middle less the zero, or the other way round where −d is what it multiplies; numbers of eight bits are
// signed in a stage.
template <class Stored, int kBlock>
void take(const ZeroFormat<Stored, kBlock>& /*format*/, const std::byte* block, int b, Parts& parts) {
  const int zero = static_cast<uint8_t>(block[2]);
  for (int i = 0; i < kBlock / 32; ++i) {
    uint8_t* q = parts.q + 32 * (b + i);
    Stored::split(block + 3 + i * Stored::kBytes, q);
    parts.halves[b + i] = load_as<uint16_t>(block);
    parts.bytes[b + i] = static_cast<uint8_t>(Stored::kMinus ? zero - Stored::kMiddle : Stored::kMiddle - zero);
    if constexpr (Stored::kMinus) std::for_each(q, q + 32, [](uint8_t& n) { n ^= 0x80; });
  }
}

void put_wide(float number, uint16_t* halves) {
  const auto bits = std::bit_cast<uint32_t>(number);
  halves[0] = static_cast<uint16_t>(bits);
  halves[1] = static_cast<uint16_t>(bits >> 16);
}

template <class T, class Levels, class Numbers, int kScaleGroup>
void take(const GridFormat<T, Levels, Numbers, kScaleGroup>& /*format*/,
          const std::byte* block,
          int /*b*/,
          Parts& parts) {
  KParts of{};
  T::split(block, of);
  std::memcpy(parts.q, of.q, sizeof of.q);
  put_wide(f16_to_f32(of.d) * T::kUnit, parts.halves);
  std::memcpy(parts.bytes, of.scale, T::kScaleGroups);
}

template <class T, bool kHasFactor>
void take(const Fp4Format<T, kHasFactor>& /*format*/, const std::byte* block, int b, Parts& parts) {
  T::split(block, parts.q + 32 * b);
  if constexpr (kHasFactor) put_wide(T::half_factor(block), parts.halves + b);
  for (int g = 0; g < T::kScaleGroups; ++g) parts.bytes[2 * b + g] = T::scale_of(block, g);
}

void or_word(std::byte* at, uint32_t bits) { store_as<uint32_t>(at, load_as<uint32_t>(at) | bits); }

// kBits bits of quad j of a block, from bit kFrom of its numbers on, into their plane.
template <int kBits, int kFrom>
void put_plane(std::byte* plane, uint32_t quad, int block, int out, int j) {
  constexpr uint32_t kMask = ((1U << kBits) - 1) * 0x01010101U;
  const int c = j % 4, word = (block * kPackedOutputs + out) * kBits + c % kBits;
  or_word(plane + int64_t{4} * word, (quad >> kFrom & kMask) << (kBits * (c / kBits) + 4 * (j / 4)));
}

// Quad j of a block, its four numbers one in a byte.
template <class W>
void put_quad(std::byte* stage, uint32_t quad, int block, int out, int j) {
  if constexpr (W::kLowBits == 8) {
    const int fragment = (block * (kPackedOutputs / 16) + out / 16) * 32 + out % 8 * 4 + j % 4;
    store_as<uint32_t>(stage + int64_t{fragment} * 16 + j / 4 * 8 + out / 8 % 2 * 4, quad);
  } else if constexpr (W::kIsTable) {
    const uint32_t nibbles = (quad & 0xfU) | (quad >> 4 & 0xf0U) | (quad >> 8 & 0xf00U) | (quad >> 12 & 0xf000U);
    or_word(stage + int64_t{(block * kPackedOutputs + out) * 4 + j % 4} * 4, nibbles << (16 * (j / 4)));
  } else {
    put_plane<W::kLowBits, 0>(stage, quad, block, out, j);
    if constexpr (W::kHighBits > 0) put_plane<W::kHighBits, W::kLowBits>(stage + W::kHighAt, quad, block, out, j);
  }
}

template <class W>
void put_stage(const Parts& parts, int n_blocks, int out, std::byte* stage) {
  for (int i = 0; i < n_blocks * 8; ++i) {
    uint32_t quad;
    std::memcpy(&quad, parts.q + 4 * i, 4);
    put_quad<W>(stage, quad, i / 8, out, i % 8);
  }
  for (int i = 0; i < W::kHalves; ++i) {
    store_as<uint16_t>(stage + W::kHalvesAt + int64_t{2} * (i * kPackedOutputs + out), parts.halves[i]);
  }
  for (int i = 0; i < W::kByteRows; ++i) {
    stage[W::kBytesAt + i * kPackedOutputs + out] = static_cast<std::byte>(parts.bytes[i]);
  }
}

// W: how stages hold it; F: how it is stored.
template <class W, class F>
void pack_row(const std::byte* row, int64_t n_in, int out, std::byte* stages) {
  for (int64_t k = 0; k < n_in; k += kPackedDepth, stages += W::kBytes) {
    Parts parts;
    const int depth = static_cast<int>(std::min<int64_t>(n_in - k, kPackedDepth));
    for (int i = 0; i < depth; i += F::kBlock, row += F::kBytes) take(F(), row, i / 32, parts);
    put_stage<W>(parts, depth / 32, out, stages);
  }
}

constexpr int kSomeRows = 64;  // too few for blocks of 128
constexpr int64_t kBatch = 8;  // runs of rows, which are in the cache while the weights pass by

// A block of many rows does more in a time, but has a multiprocessor for itself, so two in three must have one.
template <class Kernel>
bool is_for_many(const IntegerProduct& product, const DeviceSize& device) {
  const int64_t n_blocks = parts_of(product.n, Kernel::kRows) * parts_of(product.n_out, Kernel::kOutputs);
  return product.n > kSomeRows && Kernel::kSharedBytes <= device.shared_bytes &&
         3 * n_blocks >= 2 * int64_t{device.n_multiprocessors};
}

template <class Kernel>
Launch multiply(IntegerProduct product) {
  const int64_t n_runs = parts_of(product.n, Kernel::kRows), n_batches = parts_of(n_runs, kBatch);
  product.batch = static_cast<int>(parts_of(n_runs, n_batches));
  return launch_of(Kernel{product}, {product.batch, parts_of(product.n_out, Kernel::kOutputs), n_batches});
}

template <class F>
constexpr int zero_of() {
  if constexpr (requires { F::Levels::kZero; }) return F::Levels::kZero;
  return 0;
}

// Whether a number means the same to kernels as to the format.
template <class W, class F>
constexpr bool has_levels() {
  if constexpr (!W::kIsTable && !W::kIsOfEight) {
    return W::kLowBits == 8 || zero_of<F>() == W::kZero;
  } else {
    uint64_t first = 0, last = 0;
    if constexpr (W::kIsTable) {
      first = W::kFirstLevels;
      last = W::kLastLevels;
    } else {
      first = last = W::kLevels;
    }
    for (uint8_t i = 0; i < 16; ++i) {
      const auto level = static_cast<int8_t>((i < 8 ? first : last) >> (8 * (i % 8)) & 0xff);
      if (level != F::Levels::value(i)) return false;
    }
    return true;
  }
}
template <class W>
Launch multiply_few(const FewProduct& product, Blocks blocks, const DeviceSize& device) {
  if (product.n > 8) return launch_of(LinearOf16<W>{product}, blocks);
  if constexpr (LinearOf8<W>::kSharedBytes > kLeastShared) {
    static_assert(LinearOf8Small<W>::kSharedBytes <= kLeastShared);
    if (device.shared_bytes < LinearOf8<W>::kSharedBytes) return launch_of(LinearOf8Small<W>{product}, blocks);
  }
  return launch_of(LinearOf8<W>{product}, blocks);
}

template <class W, class F>
constexpr IntegerFormat format() {
  static_assert(F::kScaleGroup == W::kScaleGroup && F::kMins == W::kMins);
  static_assert(has_levels<W, F>());
  return {
      F::kName,
      W::kScaleGroup,
      W::kBytes,
      pack_row<W, F>,
      [](const IntegerProduct& product, const DeviceSize& device) {
        return is_for_many<LinearMany<W>>(product, device) ? multiply<LinearMany<W>>(product)
                                                           : multiply<LinearSome<W>>(product);
      },
      [](const DeviceSize& device) -> int64_t { return LinearOf16<W>::kSharedBytes <= device.shared_bytes ? 16 : 8; },
      multiply_few<W>,
      [](const IntegerRows& rows, int n_columns, Blocks blocks) {
        return launch_of(Elementwise<EmbedInteger<W>>{{rows}, n_columns}, blocks);
      }};
}

constexpr IntegerFormat kFormats[] = {
    format<PackedQ8_0, Q8_0>(),    format<PackedQ4_0, Q4_0>(),     format<PackedQ4_1, Q4_1>(),
    format<PackedQ5_0, Q5_0>(),    format<PackedQ5_1, Q5_1>(),     format<PackedQ2_K, Q2_K>(),
    format<PackedQ3_K, Q3_K>(),    format<PackedQ4_K, Q4_K>(),     format<PackedQ5_K, Q5_K>(),
    format<PackedQ6_K, Q6_K>(),    format<PackedIQ4_NL, IQ4_NL>(), format<PackedIQ4_XS, IQ4_XS>(),
    format<PackedMXFP4, MXFP4>(),  format<PackedQ4_Z, Q4_Z32>(),   format<PackedQ4_Z, Q4_Z128>(),
    format<PackedQ8_Z, Q8_Z32>(),  format<PackedTQ, TQ1_0>(),      format<PackedTQ, TQ2_0>(),
    format<PackedNVFP4, NVFP4>(),  format<PackedF4, F4_64>(),      format<PackedIQ3_XXS, IQ3_XXS>(),
    format<PackedIQ3_S, IQ3_S>(),  format<PackedIQ2, IQ2_XXS>(),   format<PackedIQ2_16, IQ2_XS>(),
    format<PackedIQ2_16, IQ2_S>(), format<PackedIQ1, IQ1_S>(),     format<PackedIQ1_16, IQ1_M>(),
};

}  // namespace

const IntegerFormat* find_integer_format(const WeightFormat& format) {
  const auto* found = std::ranges::find(kFormats, format.name, &IntegerFormat::name);
  return found != std::end(kFormats) ? found : nullptr;
}

}  // namespace quire::cuda
