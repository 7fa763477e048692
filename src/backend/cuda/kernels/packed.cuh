// Weights of integer formats as they lie in device memory, and how kernels take them apart (docs/numerics.md,
// "Linear"). A stage is 64 outputs × 256 k, eight blocks of 32 k; a matrix is [64 outputs][256 k] of them, zeros beyond
// the ends:
//   low bits    [block][64] words of kLowBits · 32 bits; of eight bits [block][16 outputs][lane] Fragment
//   high bits   [block][64] words of kHighBits · 32 bits
//   halves      [n][64]: a d for each block, then an m where the format has such; K formats: d, −dmin; formats of grids
//               d as an f32, the low bits first; F4 so half the factor of each 64 k
//   bytes       [n][64]: of each scale group its scale, then its min; or its zero
// Quad j of a block is its numbers 4·j …. A lane multiplies quads c and c + 4, c < 4, so these share a word: of B bits
// quad c lies in word c % B from bit B · (c / B) of each byte on, quad c + 4 four bits higher. Of formats whose numbers
// are levels of a table of sixteen quad c is the four nibbles of word c's low half, quad c + 4 those of its high half.
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

inline constexpr int kPackedOutputs = 64, kPackedBlocks = 8, kPackedDepth = 32 * kPackedBlocks;

// Of sixteen outputs and a block what a lane multiplies: of outputs lane / 4 and lane / 4 + 8 quad lane % 4, then quad
// lane % 4 + 4 of both.
struct alignas(16) Fragment {
  uint32_t words[4];
};

// What scales a scale group's products, and what is added to them: d; d and m; d · scale; d · scale and −(dmin · min);
// d · scale of a d in f32; d and d · zero; d and −d · zero; a scale in e4m3 / 2; factor / 2 · such a scale.
enum class Scaling : uint8_t {
  plain,
  offset,
  products,
  products_and_mins,
  wide_products,
  zeros,
  minus_zeros,
  e4m3,
  factors
};

template <int kLowBitsOf, int kHighBitsOf, int kZeroOf, Scaling kScalingOf, int kScaleGroupOf = 32>
struct Packed {
  static constexpr int kLowBits = kLowBitsOf, kHighBits = kHighBitsOf;
  static constexpr int kZero = kZeroOf;  // a stored number is the weight's plus this; those of eight bits are signed
  static constexpr Scaling kScaling = kScalingOf;
  static constexpr int kScaleGroup = kScaleGroupOf, kScaleGroups = kPackedDepth / kScaleGroup;
  static constexpr bool kIsWide = kScaling == Scaling::wide_products;
  static constexpr bool kIsProduct = kIsWide || kScaling == Scaling::products || kScaling == Scaling::products_and_mins;
  static constexpr bool kHasZeros = kScaling == Scaling::zeros || kScaling == Scaling::minus_zeros;
  static constexpr bool kIsE4m3 = kScaling == Scaling::e4m3 || kScaling == Scaling::factors;
  static constexpr bool kMins = kHasZeros || kScaling == Scaling::offset || kScaling == Scaling::products_and_mins;
  static constexpr bool kIsTable = false;    // whether numbers are levels of a table of sixteen
  static constexpr bool kIsOfEight = false;  // the same of eight
  static constexpr bool kIsBf16 = false;     // whether scales are bfloat16
  // Products that a scale and a min take.
  static constexpr int kScaleProducts = kScaling == Scaling::plain || kScaling == Scaling::offset                ? 0
                                        : kScaling == Scaling::products_and_mins || kScaling == Scaling::factors ? 2
                                                                                                                 : 1;
  static constexpr bool kHasHalfMins = kMins && !kHasZeros;

  // Where the parts of so many outputs and blocks lie, in the order above.
  template <int kOutputsOf, int kBlocksOf>
  struct Piece {
    static constexpr int kOutputs = kOutputsOf, kBlocks = kBlocksOf, kGroups = 32 * kBlocks / kScaleGroup;
    static constexpr int kHalves =
        kScaling == Scaling::e4m3 ? 0 : (kIsProduct ? 1 : kBlocks) * (kHasHalfMins || kIsWide ? 2 : 1);
    static constexpr int kByteRows = kIsProduct || kIsE4m3 ? kGroups * (kMins ? 2 : 1) : kHasZeros ? kBlocks : 0;
    static constexpr int kHighAt = kOutputs * kBlocks * 4 * kLowBits;
    static constexpr int kHalvesAt = kHighAt + kOutputs * kBlocks * 4 * kHighBits;
    static constexpr int kBytesAt = kHalvesAt + kHalves * kOutputs * 2;
    static constexpr int kBytes = kBytesAt + kByteRows * kOutputs;
  };
  using Stage = Piece<kPackedOutputs, kPackedBlocks>;
  static constexpr int kBytes = Stage::kBytes, kByteRows = Stage::kByteRows, kHalves = Stage::kHalves;
  static constexpr int kHighAt = Stage::kHighAt, kHalvesAt = Stage::kHalvesAt, kBytesAt = Stage::kBytesAt;
};

struct PackedQ8_0 : Packed<8, 0, 0, Scaling::plain> {};
struct PackedQ4_0 : Packed<4, 0, 8, Scaling::plain> {};
struct PackedQ4_1 : Packed<4, 0, 0, Scaling::offset> {};
struct PackedQ5_0 : Packed<4, 1, 16, Scaling::plain> {};
struct PackedQ5_1 : Packed<4, 1, 0, Scaling::offset> {};
struct PackedQ2_K : Packed<2, 0, 0, Scaling::products_and_mins, 16> {};
struct PackedQ3_K : Packed<2, 1, 4, Scaling::products, 16> {};
struct PackedQ4_K : Packed<4, 0, 0, Scaling::products_and_mins> {};
struct PackedQ5_K : Packed<4, 1, 0, Scaling::products_and_mins> {};
struct PackedQ6_K : Packed<4, 2, 32, Scaling::products, 16> {};
struct PackedQ4_Z : Packed<4, 0, 8, Scaling::zeros> {};  // a scale and a zero for 32 or for more
struct PackedQ8_Z : Packed<8, 0, 0, Scaling::minus_zeros> {};
struct PackedTQ : Packed<2, 0, 1, Scaling::products> {};

// Levels are signed bytes of two words, the first in the low bits.
inline constexpr uint64_t kFirstUneven = 0xf6eaddcfbfad9881U, kLastUneven = 0x7159453526190d01U;
struct PackedIQ4_NL : Packed<4, 0, 0, Scaling::plain> {
  static constexpr bool kIsTable = true;
  static constexpr uint64_t kFirstLevels = kFirstUneven, kLastLevels = kLastUneven;
};
struct PackedIQ4_XS : Packed<4, 0, 0, Scaling::products> {
  static constexpr bool kIsTable = true;
  static constexpr uint64_t kFirstLevels = kFirstUneven, kLastLevels = kLastUneven;
};
struct PackedMXFP4 : Packed<4, 0, 0, Scaling::plain> {
  static constexpr bool kIsTable = true, kIsBf16 = true;
  static constexpr uint64_t kFirstLevels = 0x0c08060403020100U, kLastLevels = 0xf4f8fafcfdfeff00U;
};

struct PackedNVFP4 : Packed<4, 0, 0, Scaling::e4m3, 16> {
  static constexpr bool kIsTable = true;
  static constexpr uint64_t kFirstLevels = PackedMXFP4::kFirstLevels, kLastLevels = PackedMXFP4::kLastLevels;
};
struct PackedF4 : Packed<4, 0, 0, Scaling::factors, 16> {
  static constexpr bool kIsTable = true;
  static constexpr uint64_t kFirstLevels = PackedMXFP4::kFirstLevels, kLastLevels = PackedMXFP4::kLastLevels;
};

// Formats of grids: a number is a magnitude's, with its sign above it (quant/grid_format.h).
struct PackedIQ3_XXS : Packed<4, 0, 0, Scaling::wide_products> {
  static constexpr bool kIsTable = true;
  static constexpr uint64_t kFirstLevels = 0x3e342c241c140c04U, kLastLevels = 0xc2ccd4dce4ecf4fcU;
};
struct PackedIQ3_S : Packed<4, 0, 0, Scaling::wide_products> {
  static constexpr bool kIsTable = true;
  static constexpr uint64_t kFirstLevels = 0x0f0d0b0907050301U, kLastLevels = 0xf1f3f5f7f9fbfdffU;
};
template <uint64_t kLevelsOf, int kScaleGroup>
struct PackedOfEight : Packed<2, 1, 0, Scaling::wide_products, kScaleGroup> {
  static constexpr bool kIsOfEight = true;
  static constexpr uint64_t kLevels = kLevelsOf;
};
inline constexpr uint64_t kTwoBits = 0xd5d5e7f82b2b1908U, kShifted = 0x0707fff7090901f9U;
struct PackedIQ2 : PackedOfEight<kTwoBits, 32> {};     // IQ2_XXS
struct PackedIQ2_16 : PackedOfEight<kTwoBits, 16> {};  // IQ2_XS, IQ2_S
struct PackedIQ1 : PackedOfEight<kShifted, 32> {};     // IQ1_S
struct PackedIQ1_16 : PackedOfEight<kShifted, 16> {};  // IQ1_M

// A stage in shared or in device memory.
struct StageInShared {
  int base;
  template <class T>
  QR_DEVICE T at(int byte, int i) const {
    return dev::Shared<T>(base + byte)[i];
  }
};
struct StageInDevice {
  const uint8_t* base;
  template <class T>
  QR_DEVICE T at(int byte, int i) const {
    return dev::load(reinterpret_cast<const T*>(base + byte) + i);
  }
};

template <class W, class Stage, class Piece = typename W::Stage>
struct Unpacked {
  Stage stage;

  // Weights of quads c and c + 4 of a block, signed bytes.
  QR_DEVICE void quads(int block, int out, int c, uint32_t (&two)[2]) const {
    if constexpr (W::kLowBits == 8) {
      const int fragment = (block * (Piece::kOutputs / 16) + out / 16) * 32 + out % 8 * 4 + c;
      for (int h = 0; h < 2; ++h) two[h] = stage.template at<uint32_t>(0, fragment * 4 + h * 2 + out / 8 % 2);
    } else if constexpr (W::kIsTable) {
      const auto nibbles = stage.template at<uint32_t>(0, (block * Piece::kOutputs + out) * 4 + c);
      two[0] = levels(nibbles);
      two[1] = levels(nibbles >> 16);
    } else {
      const uint32_t low = word<W::kLowBits>(0, block, out, c);
      const uint32_t high = word<W::kHighBits>(Piece::kHighAt, block, out, c);
      for (int h = 0; h < 2; ++h) two[h] = joined(low >> (4 * h), high >> (4 * h));
      if constexpr (W::kIsOfEight) {
        for (int h = 0; h < 2; ++h) two[h] = levels_of_eight(two[h]);
      }
    }
  }

  QR_DEVICE float scale(int group, int out) const {
    if constexpr (W::kIsE4m3) return e4m3_scale(group, out);
    if constexpr (W::kIsWide) return dev::mul(wide(0, out), dev::whole(byte<int8_t>(group, out)));
    const auto d = stage.template at<uint16_t>(Piece::kHalvesAt, (W::kIsProduct ? 0 : group) * Piece::kOutputs + out);
    if constexpr (W::kIsBf16) return dev::as_float(uint32_t{d} << 16);
    if constexpr (W::kIsProduct) return dev::mul(dev::to_float(d), dev::whole(byte<int8_t>(group, out)));
    return dev::to_float(d);
  }
  QR_DEVICE float min(int group, int out) const {
    if constexpr (W::kHasZeros) {
      const auto d = stage.template at<uint16_t>(Piece::kHalvesAt, group * Piece::kOutputs + out);
      const uint16_t sign = W::kScaling == Scaling::minus_zeros ? 0x8000 : 0;
      return dev::mul(dev::to_float(d ^ sign), dev::whole(byte<int8_t>(group, out)));
    } else {
      constexpr int kFirst = Piece::kHalves / 2;
      const int i = (kFirst + (W::kIsProduct ? 0 : group)) * Piece::kOutputs + out;
      const float m = dev::to_float(stage.template at<uint16_t>(Piece::kHalvesAt, i));
      if constexpr (W::kIsProduct) return dev::mul(m, dev::whole(byte<uint8_t>(Piece::kGroups + group, out)));
      return m;
    }
  }

 private:
  // A half has e4m3's bits of a number 2⁸ times as large, where it has neither a sign nor is none (NVFP4).
  QR_DEVICE float e4m3_scale(int group, int out) const {
    const auto code = byte<uint8_t>(group, out);
    if constexpr (W::kScaling == Scaling::e4m3) {
      return dev::mul(dev::to_float(static_cast<uint16_t>(code << 7)), 128.0F);
    } else {
      constexpr int kGroupsOfFactor = 4;
      return dev::mul(wide(group / kGroupsOfFactor * 2, out), float_of_e4m3(code));
    }
  }
  // An f32 in two rows of halves.
  QR_DEVICE float wide(int row, int out) const {
    const uint32_t low = stage.template at<uint16_t>(Piece::kHalvesAt, row * Piece::kOutputs + out);
    const uint32_t high = stage.template at<uint16_t>(Piece::kHalvesAt, (row + 1) * Piece::kOutputs + out);
    return dev::as_float(high << 16 | low);
  }
  template <class T>
  QR_DEVICE T byte(int row, int out) const {
    return stage.template at<T>(Piece::kBytesAt, row * Piece::kOutputs + out);
  }
  template <int kBits>
  QR_DEVICE uint32_t word(int at, int block, int out, int c) const {
    if constexpr (kBits == 0) return 0;
    constexpr int kWords = kBits > 0 ? kBits : 1;
    return stage.template at<uint32_t>(at, (block * Piece::kOutputs + out) * kBits + c % kWords) >>
           (kBits * (c / kWords));
  }
  QR_DEVICE uint32_t joined(uint32_t low, uint32_t high) const {
    constexpr uint32_t kEach = 0x01010101U, kTop = 0x80U * kEach;
    uint32_t numbers = low & ((1U << W::kLowBits) - 1) * kEach;
    if constexpr (W::kHighBits > 0) numbers |= (high & ((1U << W::kHighBits) - 1) * kEach) << W::kLowBits;
    if constexpr (W::kZero > 0) numbers = ((numbers | kTop) - W::kZero * kEach) ^ kTop;
    return numbers;
  }
  // Of the four nibbles in the low half.
  QR_DEVICE uint32_t levels(uint32_t nibbles) const {
    const uint32_t of_eight = nibbles & 0x7777U;
    const uint32_t first = dev::pick_bytes(static_cast<uint32_t>(W::kFirstLevels), W::kFirstLevels >> 32, of_eight);
    const uint32_t last = dev::pick_bytes(static_cast<uint32_t>(W::kLastLevels), W::kLastLevels >> 32, of_eight);
    return dev::pick_bytes(first, last, 0x3210U | (nibbles & 0x8888U) >> 1);
  }
  // Of four numbers, one in a byte.
  QR_DEVICE uint32_t levels_of_eight(uint32_t numbers) const {
    const uint32_t nibbles = dev::pick_bytes(numbers | numbers >> 4, 0, 0x20U);
    return dev::pick_bytes(static_cast<uint32_t>(W::kLevels), W::kLevels >> 32, nibbles);
  }
};

}  // namespace quire::cuda
