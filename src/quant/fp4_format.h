// Integer formats of 64 four-bit floats (e2m1) in scale groups of 16, each with a scale that is a float too (e4m3), and
// one factor in f32 over them where they have it:
//   value = factor / 2 · scale[g] · level(number)          without a factor: scale[g] / 2 · level(number), exact in f32
// The levels are twice the floats, so that they are whole. In a panel scales stay bytes, 4.5 bits a weight in all
// (5 with a factor), and kernels widen 16 rows' scales by one load.
// A format T says which bytes are scales: scale_byte(byte) is what a panel has of one.
#pragma once
#include <cmath>

#include "quant/e4m3.h"
#include "quant/fp4_levels.h"
#include "quant/panel.h"
#include "quant/search.h"

namespace quire {

//   file block: f32 factor, where there is one | 4 scales | 4 × 8 bytes, byte i = number i | number 8 + i << 4
template <class T, bool kHasFactor>
struct Fp4Format : LevelPanel<Fp4Levels, Numbers4> {
  using Levels = Fp4Levels;
  using Numbers = Numbers4;
  static constexpr int kBlock = 64;
  static constexpr bool kInteger = true;
  static constexpr bool kRounded = false;
  static constexpr int kScaleGroup = 16;
  static constexpr int kScaleGroups = kBlock / kScaleGroup;
  static constexpr int kSuper = kBlock / kPanelDepth;
  static constexpr bool kMins = false;
  static constexpr int kFactorBytes = kHasFactor ? 4 : 0;
  static constexpr int kBytes = kFactorBytes + kScaleGroups + kBlock / 2;
  static constexpr int kPanelBytes = Numbers::kBytes;
  static constexpr int kPanelScaleBytes = kPanelRows * (kFactorBytes + kScaleGroups);
  static constexpr int kZero = Levels::kZero;
  static constexpr int kMax = Levels::kMax;

  // A block of these numbers.
  static QR_INLINE void join(float factor, const uint8_t* scales, const uint8_t* q, std::byte* block) {
    if constexpr (kHasFactor) store_as<float>(block, factor);
    std::memcpy(block + kFactorBytes, scales, kScaleGroups);
    std::byte* to = block + kFactorBytes + kScaleGroups;
    for (int g = 0; g < kScaleGroups; ++g, q += kScaleGroup) {
      for (int i = 0; i < 8; ++i) *to++ = static_cast<std::byte>((q[i] & 15) | (q[8 + i] & 15) << 4);
    }
  }

  static QR_INLINE void decode(const std::byte* block, float* out) {
    const float half = half_factor(block);
    uint8_t q[kBlock];
    split(block, q);
    for (int g = 0; g < kScaleGroups; ++g, out += kScaleGroup) {
      const float scale = half * e4m3_to_f32(scale_of(block, g));
      for (int i = 0; i < kScaleGroup; ++i) out[i] = scale * static_cast<float>(Levels::value(q[g * kScaleGroup + i]));
    }
  }
  // Scales under which the nearest levels have the least squared error, around the one that keeps a group's largest
  // number below the last level. The factor keeps the largest of a block's scales at e4m3's last number.
  static void encode(const float* in, std::byte* block) {
    float factor = 1;
    if constexpr (kHasFactor) {
      factor = largest(in, kBlock) / (kMostE4m3 * kMostFp4);
      factor = factor >= 0x1p-126F ? factor : 0.0F;
    }
    uint8_t scales[kScaleGroups], q[kBlock];
    for (int g = 0; g < kScaleGroups; ++g) scales[g] = fit(in + g * kScaleGroup, factor, q + g * kScaleGroup);
    join(factor, scales, q, block);
  }

  // scales: 16 factors where there are any, then 16 of each scale group.
  static QR_INLINE void pack(const std::byte* const* rows, std::byte* panel, std::byte* scales) {
    for (int r = 0; r < kPanelRows; ++r) {
      uint8_t q[kBlock] = {};
      if (rows[r] != nullptr) split(rows[r], q);
      for (int b = 0; b < kSuper; ++b) Numbers::put(q + b * kPanelDepth, r, panel + b * kPanelBytes);
      if constexpr (kHasFactor) {
        store_as<float>(scales + 4 * r, rows[r] != nullptr ? load_as<float>(rows[r]) : 0.0F);
      }
      for (int g = 0; g < kScaleGroups; ++g) {
        const uint8_t scale = rows[r] != nullptr ? scale_of(rows[r], g) : uint8_t{0};
        scales[kPanelRows * (kFactorBytes + g) + r] = static_cast<std::byte>(scale);
      }
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, const std::byte* scales, int row, std::byte* out) {
    uint8_t q[kBlock] = {}, own[kScaleGroups];
    for (int b = 0; b < kSuper; ++b) Numbers::get(panel + b * kPanelBytes, row, q + b * kPanelDepth);
    for (int g = 0; g < kScaleGroups; ++g) {
      own[g] = static_cast<uint8_t>(scales[kPanelRows * (kFactorBytes + g) + row]);
    }
    join(kHasFactor ? load_as<float>(scales + 4 * row) : 1.0F, own, q, out);
  }

  template <class V>
  struct Scales {
    typename V::F half;
    const std::byte* of_groups;
    Scales() = default;
    explicit QR_INLINE Scales(const std::byte* scales) : of_groups(scales + kPanelRows * kFactorBytes) {
      half = V::set1(0.5F);
      if constexpr (kHasFactor) half = V::mul(half, V::load(reinterpret_cast<const float*>(scales)));
    }
    QR_INLINE typename V::F scale(int scale_group) const {
      return V::mul(half, V::load_e4m3(of_groups + kPanelRows * scale_group));
    }
  };

  static QR_INLINE float half_factor(const std::byte* block) {
    if constexpr (kHasFactor) return 0.5F * load_as<float>(block);
    return 0.5F;
  }
  static QR_INLINE uint8_t scale_of(const std::byte* block, int g) {
    return T::scale_byte(static_cast<uint8_t>(block[kFactorBytes + g]));
  }
  static QR_INLINE void split(const std::byte* block, uint8_t* q) {
    constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0fU;
    for (int g = 0; g < kScaleGroups; ++g, q += kScaleGroup) {
      const auto bytes = load_as<uint64_t>(block + kFactorBytes + kScaleGroups + 8 * g);
      const uint64_t low = bytes & kLow, high = bytes >> 4 & kLow;
      std::memcpy(q, &low, 8);
      std::memcpy(q + 8, &high, 8);
    }
  }

 private:
  static float largest(const float* in, int n) {
    float most = 0;
    for (int i = 0; i < n; ++i) most = std::fabs(in[i]) > most ? std::fabs(in[i]) : most;
    return most;
  }
  // The scale of 16 numbers, and the numbers.
  static uint8_t fit(const float* in, float factor, uint8_t* q) {
    const float covering = factor > 0 ? largest(in, kScaleGroup) / (factor * kMostFp4) : 0.0F;
    const int code = f32_to_e4m3(covering < kMostE4m3 ? covering : kMostE4m3);
    uint8_t best = 0;
    double least = INFINITY;
    for (int c = code > 2 ? code - 2 : 0; c <= code + 2 && c < 0x7f; ++c) {
      const float scale = 0.5F * factor * e4m3_to_f32(static_cast<uint8_t>(c));
      const double error = search::error_at<Levels>(search::Numbers<false>{in, nullptr, kScaleGroup}, {scale, 0});
      if (!(error < least)) continue;
      least = error;
      best = static_cast<uint8_t>(c);
    }
    search::write_numbers<Levels>(in, kScaleGroup, {0.5F * factor * e4m3_to_f32(best), 0}, q);
    return best;
  }
};

}  // namespace quire
