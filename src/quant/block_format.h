// Integer formats whose file block is 32 numbers with one scale, and an offset where they have one:
//   value = d · level(number) + m
// A format derives from this and says how its file block is cut into parts (split, join). quant/encode.h makes one.
#pragma once
#include "quant/levels.h"
#include "quant/panel.h"

namespace quire {

struct BlockParts {
  uint8_t q[32];
  uint16_t d;  // half precision, unless the format widens it otherwise
  uint16_t m;  // half precision
};

template <class T, class LevelsOf, class NumbersOf, bool kHasMins>
struct BlockFormat : LevelPanel<LevelsOf, NumbersOf> {
  using Levels = LevelsOf;
  using Numbers = NumbersOf;
  static constexpr int kBlock = 32;
  static constexpr bool kInteger = true;
  static constexpr bool kRounded = false;
  static constexpr int kScaleGroup = 32;
  static constexpr int kSuper = 1;
  static constexpr bool kMins = kHasMins;
  static constexpr int kPanelBytes = Numbers::kBytes;
  static constexpr int kPanelScaleBytes = kPanelRows * (kMins ? 4 : 2);
  static constexpr int kZero = Levels::kZero;
  static constexpr int kMax = Levels::kMax;

  static QR_INLINE float widen(uint16_t d) { return f16_to_f32(d); }
  template <class V>
  static QR_INLINE typename V::F load_wide(const std::byte* from) {
    return V::load_f16(reinterpret_cast<const uint16_t*>(from));
  }

  static QR_INLINE void decode(const std::byte* block, float* out) {
    BlockParts parts;
    T::split(block, parts);
    const float d = T::widen(parts.d);
    for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(Levels::value(parts.q[i]));
    if constexpr (kMins) {
      const float m = f16_to_f32(parts.m);
      for (int i = 0; i < kBlock; ++i) out[i] += m;
    }
  }

  // scales: 16 d, then 16 m.
  static QR_INLINE void pack(const std::byte* const* rows, std::byte* panel, std::byte* scales) {
    for (int r = 0; r < kPanelRows; ++r) {
      BlockParts parts{};
      if (rows[r] != nullptr) T::split(rows[r], parts);
      Numbers::put(parts.q, r, panel);
      store_as<uint16_t>(scales + 2 * r, parts.d);
      if constexpr (kMins) store_as<uint16_t>(scales + 2 * kPanelRows + 2 * r, parts.m);
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, const std::byte* scales, int row, std::byte* out) {
    BlockParts parts{};
    Numbers::get(panel, row, parts.q);
    parts.d = load_as<uint16_t>(scales + 2 * row);
    if constexpr (kMins) parts.m = load_as<uint16_t>(scales + 2 * kPanelRows + 2 * row);
    T::join(parts, out);
  }

  template <class V>
  struct Scales {
    const std::byte* at;
    Scales() = default;
    explicit QR_INLINE Scales(const std::byte* scales) : at(scales) {}
    QR_INLINE typename V::F scale(int /*scale_group*/) const { return T::template load_wide<V>(at); }
    QR_INLINE typename V::F min(int /*scale_group*/) const {
      return V::load_f16(reinterpret_cast<const uint16_t*>(at + 2 * kPanelRows));
    }
  };
};

// Low four bits of 32 numbers: byte i holds those of numbers i and 16 + i. Eight bytes at a time: g++ takes the plain
// loop apart byte by byte, which made packing seven times as slow.
QR_INLINE void split_nibbles(const std::byte* from, uint8_t* q) {
  constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0fU;
  for (int i = 0; i < 16; i += 8) {
    const auto bytes = load_as<uint64_t>(from + i);
    const uint64_t low = bytes & kLow;
    const uint64_t high = bytes >> 4 & kLow;
    std::memcpy(q + i, &low, 8);
    std::memcpy(q + 16 + i, &high, 8);
  }
}
QR_INLINE void join_nibbles(const uint8_t* q, std::byte* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::byte>((q[i] & 15) | (q[16 + i] & 15) << 4);
}
// The fifth bit of 32 numbers, bit i that of number i.
QR_INLINE void split_fifth_bits(uint32_t bits, uint8_t* q) {
  constexpr uint64_t kEach = 0x0101010101010101U, kOwn = 0x8040201008040201U;
  for (int i = 0; i < 32; i += 8) {
    const uint64_t own = (bits >> i & 0xffU) * kEach & kOwn;  // of byte j only bit j
    uint64_t numbers;
    std::memcpy(&numbers, q + i, 8);
    numbers |= ((own + 0x7f * kEach) >> 7 & kEach) << 4;
    std::memcpy(q + i, &numbers, 8);
  }
}
QR_INLINE uint32_t join_fifth_bits(const uint8_t* q) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(q[i] >> 4 & 1) << i;
  return bits;
}

// Of four-bit numbers: f16 d | 16 bytes, byte i = number i | number 16 + i << 4.
template <class T, class LevelsOf>
struct NibbleFormat : BlockFormat<T, LevelsOf, Numbers4, false> {
  static constexpr int kBytes = 18;

  static QR_INLINE void split(const std::byte* block, BlockParts& parts) {
    parts.d = load_as<uint16_t>(block);
    split_nibbles(block + 2, parts.q);
  }
  static QR_INLINE void join(const BlockParts& parts, std::byte* block) {
    store_as<uint16_t>(block, parts.d);
    join_nibbles(parts.q, block + 2);
  }
};

}  // namespace quire
