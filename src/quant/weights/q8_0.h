// Weight format Q8_0: blocks of 32 int8 with one half-precision scale (GGUF type 8).
//   file block: f16 d | int8 q[32]          value = d · q
#pragma once
#include <cmath>

#include "quant/f16.h"
#include "quant/weight_format.h"

namespace quire {

struct Q8_0 {
  static constexpr std::string_view kName = "q8_0";
  static constexpr uint32_t kGgmlType = 8;
  static constexpr int kBlock = 32;
  static constexpr int kBytes = 34;
  static constexpr bool kInteger = true;
  static constexpr bool kRounded = false;
  static constexpr int kScaleGroup = 32;
  static constexpr int kSuper = 1;
  static constexpr bool kMins = false;
  static constexpr int kPanelBytes = kPanelRows * kPanelDepth;
  static constexpr int kPanelScaleBytes = kPanelRows * 2;
  static constexpr int kZero = 128;  // stored unsigned, so that u8·s8 dot products apply
  static constexpr int kMax = 255;

  static QR_INLINE void decode(const std::byte* block, float* out) {
    const float d = f16_to_f32(load_as<uint16_t>(block));
    for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
  static QR_INLINE void encode(const float* in, std::byte* block) {
    float amax = 0;
    for (int i = 0; i < kBlock; ++i) amax = std::fabs(in[i]) > amax ? std::fabs(in[i]) : amax;
    const float d = amax / 127.0F;
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    store_as<uint16_t>(block, f32_to_f16(d));
    for (int i = 0; i < kBlock; ++i) {
      const float q = std::roundf(in[i] * inverse);  // no number: 0
      block[2 + i] = static_cast<std::byte>(q >= -127.0F && q <= 127.0F ? static_cast<int8_t>(q) : int8_t{0});
    }
  }

  // panel: 8 lines of 64 bytes, line j byte 4·r + i = row r, k = 4·j + i, plus 128. scales: 16 halves.
  static QR_INLINE void pack(const std::byte* const* rows, std::byte* panel, std::byte* scales) {
    for (int r = 0; r < kPanelRows; ++r) {
      const std::byte* row = rows[r];
      store_as<uint16_t>(scales + 2 * r, row != nullptr ? load_as<uint16_t>(row) : uint16_t{0});
      for (int j = 0; j < kPanelDepth / 4; ++j) {
        const uint32_t quad = row != nullptr ? load_as<uint32_t>(row + 2 + 4 * j) : 0U;
        store_as<uint32_t>(panel + 64 * j + 4 * r, quad ^ 0x80808080U);
      }
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, const std::byte* scales, int row, std::byte* out) {
    store_as<uint16_t>(out, load_as<uint16_t>(scales + 2 * row));
    for (int k = 0; k < kPanelDepth; ++k) out[2 + k] = panel[k / 4 * 64 + 4 * row + k % 4] ^ std::byte{0x80};
  }
  template <class V, int J>
  static QR_INLINE typename V::U load_quad(const std::byte* panel) {
    return V::load_bytes(panel + 64 * J);
  }
  template <class V>
  struct Scales {
    const std::byte* at;
    Scales() = default;
    explicit QR_INLINE Scales(const std::byte* scales) : at(scales) {}
    QR_INLINE typename V::F scale(int /*scale_group*/) const {
      return V::load_f16(reinterpret_cast<const uint16_t*>(at));
    }
  };
};

}  // namespace quire
