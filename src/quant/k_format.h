// Integer formats of 256 numbers in scale groups of 32 or 16 that share a half-precision scale, and a half-precision
// scale of mins where they have them:
//   value = d · scale[g] · level(number) − dmin · min[g]
// The products of scales are exact in f32. In a panel each scale group's scale and min are widened to a byte, so that a
// kernel gets 16 rows' scales by one widening load; d stays in a register over the super-block.
// A format derives from this and says how its file block is cut into parts (split, join), and which scales of scale
// groups it can hold (kLowScale, kHighScale). quant/encode.h makes one.
#pragma once
#include "quant/levels.h"
#include "quant/panel.h"

namespace quire {

struct KParts {
  uint8_t q[256];
  uint16_t d, dmin;
  int8_t scale[16];  // of each scale group
  uint8_t min[16];
};

// How a panel holds a scale group's scale and min: a signed byte alone; a byte each; the two nibbles of one byte.
enum class SubScale : uint8_t { only, bytes, nibbles };

template <class T, class LevelsOf, class NumbersOf, int kScaleGroupOf, SubScale kSub>
struct KFormat : LevelPanel<LevelsOf, NumbersOf> {
  using Levels = LevelsOf;
  using Numbers = NumbersOf;
  static constexpr int kBlock = 256;
  static constexpr bool kInteger = true;
  static constexpr bool kRounded = false;
  static constexpr int kScaleGroup = kScaleGroupOf;
  static constexpr int kSuper = kBlock / kPanelDepth;
  static constexpr int kScaleGroups = kBlock / kScaleGroup;
  static constexpr bool kMins = kSub != SubScale::only;
  static constexpr int kHalves = kPanelRows * (kMins ? 4 : 2);  // bytes of d, or of d and −dmin
  static constexpr int kSubBytes = kPanelRows * (kSub == SubScale::bytes ? 2 : 1);
  static constexpr int kPanelBytes = Numbers::kBytes;
  static constexpr int kPanelScaleBytes = kHalves + kScaleGroups * kSubBytes;
  static constexpr int kZero = Levels::kZero;
  static constexpr int kMax = Levels::kMax;
  static constexpr uint16_t kSign = 0x8000;

  static QR_INLINE void decode(const std::byte* block, float* out) {
    KParts parts;
    T::split(block, parts);
    const float d = f16_to_f32(parts.d);
    const float dmin = kMins ? f16_to_f32(parts.dmin) : 0.0F;
    for (int g = 0; g < kScaleGroups; ++g) {
      const float scale = d * static_cast<float>(parts.scale[g]);
      float* to = out + g * kScaleGroup;
      for (int i = 0; i < kScaleGroup; ++i)
        to[i] = scale * static_cast<float>(Levels::value(parts.q[g * kScaleGroup + i]));
      if constexpr (kMins) {
        const float min = dmin * static_cast<float>(parts.min[g]);
        for (int i = 0; i < kScaleGroup; ++i) to[i] -= min;
      }
    }
  }

  // scales: 16 d, 16 −dmin, then the scale groups' scales and mins.
  static QR_INLINE void pack(const std::byte* const* rows, std::byte* panel, std::byte* scales) {
    for (int r = 0; r < kPanelRows; ++r) {
      KParts parts{};
      if (rows[r] != nullptr) T::split(rows[r], parts);
      for (int b = 0; b < kSuper; ++b) Numbers::put(parts.q + b * kPanelDepth, r, panel + b * kPanelBytes);
      store_as<uint16_t>(scales + 2 * r, parts.d);
      if constexpr (kMins) {
        store_as<uint16_t>(scales + 2 * kPanelRows + 2 * r, static_cast<uint16_t>(parts.dmin ^ kSign));
      }
      for (int g = 0; g < kScaleGroups; ++g) {
        std::byte* to = scales + kHalves + g * kSubBytes + r;
        const auto scale = static_cast<uint8_t>(parts.scale[g]);
        to[0] = static_cast<std::byte>(kSub == SubScale::nibbles ? scale | parts.min[g] << 4 : scale);
        if constexpr (kSub == SubScale::bytes) to[kPanelRows] = static_cast<std::byte>(parts.min[g]);
      }
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, const std::byte* scales, int row, std::byte* out) {
    KParts parts{};
    for (int b = 0; b < kSuper; ++b) Numbers::get(panel + b * kPanelBytes, row, parts.q + b * kPanelDepth);
    parts.d = load_as<uint16_t>(scales + 2 * row);
    if constexpr (kMins) {
      parts.dmin = static_cast<uint16_t>(load_as<uint16_t>(scales + 2 * kPanelRows + 2 * row) ^ kSign);
    }
    for (int g = 0; g < kScaleGroups; ++g) {
      const std::byte* from = scales + kHalves + g * kSubBytes + row;
      const auto byte = static_cast<uint8_t>(from[0]);
      parts.scale[g] = static_cast<int8_t>(kSub == SubScale::nibbles ? byte & 15 : byte);
      if constexpr (kSub == SubScale::nibbles) parts.min[g] = byte >> 4;
      if constexpr (kSub == SubScale::bytes) parts.min[g] = static_cast<uint8_t>(from[kPanelRows]);
    }
    T::join(parts, out);
  }

  template <class V>
  struct Scales {
    typename V::F d, minus_dmin;
    const std::byte* sub;
    Scales() = default;
    explicit QR_INLINE Scales(const std::byte* scales) : sub(scales + kHalves) {
      d = V::load_f16(reinterpret_cast<const uint16_t*>(scales));
      minus_dmin = kMins ? V::load_f16(reinterpret_cast<const uint16_t*>(scales + 2 * kPanelRows)) : d;
    }
    QR_INLINE typename V::F scale(int scale_group) const {
      const std::byte* from = sub + scale_group * kSubBytes;
      if constexpr (kSub == SubScale::nibbles) return V::mul(d, V::template load_nibbles<0>(from));
      return V::mul(d, V::load_i8(from));
    }
    QR_INLINE typename V::F min(int scale_group) const {
      const std::byte* from = sub + scale_group * kSubBytes;
      if constexpr (kSub == SubScale::nibbles) return V::mul(minus_dmin, V::template load_nibbles<4>(from));
      return V::mul(minus_dmin, V::load_i8(from + kPanelRows));
    }
  };
};

}  // namespace quire
