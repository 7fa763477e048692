// Integer formats of kBlock numbers with one half-precision scale and one zero, which is a number too:
//   value = d · (number − zero)
// Kernels see d · (number − kMiddle) + d · (kMiddle − zero): both products, and so the sum, are exact in f32. In a
// panel kMiddle − zero is a signed byte, which it fits into. They are what GPTQ and AWQ store; GGUF has no such types.
#pragma once
#include "quant/block_format.h"

namespace quire {

// Whole bytes, as a plane of eight bits.
struct Numbers8 {
  static constexpr int kBytes = kPanelRows * kPanelDepth;

  static QR_INLINE void put(const uint8_t* q, int row, std::byte* panel) {
    for (int j = 0; j < kPanelDepth / 4; ++j) std::memcpy(panel + 64 * j + 4 * row, q + 4 * j, 4);
  }
  static QR_INLINE void get(const std::byte* panel, int row, uint8_t* q) {
    for (int j = 0; j < kPanelDepth / 4; ++j) std::memcpy(q + 4 * j, panel + 64 * j + 4 * row, 4);
  }
  template <class V, int J>
  static QR_INLINE typename V::U quad(const std::byte* panel) {
    return V::load_bytes(panel + 64 * J);
  }
};

// 32 numbers in a file's block.
struct PackedNibbles {
  static constexpr int kMiddle = 8, kMost = 15, kBytes = 16;
  static constexpr bool kMinus = false;
  using Panel = Numbers4;
  static QR_INLINE void split(const std::byte* from, uint8_t* q) { split_nibbles(from, q); }
  static QR_INLINE void join(const uint8_t* q, std::byte* to) { join_nibbles(q, to); }
};
struct PackedBytes {
  static constexpr int kMiddle = 128, kMost = 255, kBytes = 32;
  static constexpr bool kMinus = true;
  using Panel = Numbers8;
  static QR_INLINE void split(const std::byte* from, uint8_t* q) { std::memcpy(q, from, 32); }
  static QR_INLINE void join(const uint8_t* q, std::byte* to) { std::memcpy(to, q, 32); }
};

//   file block: f16 d | u8 zero | runs of 32 numbers
template <class Packed, int kBlockOf>
struct ZeroFormat {
  static constexpr int kMiddle = Packed::kMiddle;
  using Levels = Whole<-kMiddle, Packed::kMost - kMiddle>;
  static constexpr uint32_t kGgmlType = kNoGgmlType;
  static constexpr int kBlock = kBlockOf;
  static constexpr bool kInteger = true;
  static constexpr bool kRounded = false;
  static constexpr int kScaleGroup = kPanelDepth;
  static constexpr int kSuper = kBlock / kPanelDepth;
  static constexpr bool kMins = true;
  static constexpr int kBytes = 3 + kSuper * Packed::kBytes;
  static constexpr int kPanelBytes = Packed::Panel::kBytes;
  static constexpr int kMinScale =
      Packed::kMinus ? 2 * kPanelRows : 0;  // where ±d is that a zero's byte is multiplied by
  static constexpr int kPanelScaleBytes = kMinScale + kPanelRows * 3;
  static constexpr int kZero = Levels::kZero;
  static constexpr int kMax = Levels::kMax;

  // A block of these numbers.
  static QR_INLINE void join(uint16_t d, uint8_t zero, const uint8_t* q, std::byte* block) {
    store_as<uint16_t>(block, d);
    block[2] = static_cast<std::byte>(zero);
    for (int b = 0; b < kSuper; ++b) Packed::join(q + b * kPanelDepth, block + 3 + b * Packed::kBytes);
  }

  static QR_INLINE void decode(const std::byte* block, float* out) {
    const float d = f16_to_f32(load_as<uint16_t>(block));
    const float min = (Packed::kMinus ? -d : d) * static_cast<float>(static_cast<int8_t>(from_middle(block[2])));
    for (int b = 0; b < kSuper; ++b) {
      uint8_t q[kPanelDepth];
      Packed::split(block + 3 + b * Packed::kBytes, q);
      float* to = out + b * kPanelDepth;
      for (int i = 0; i < kPanelDepth; ++i) to[i] = d * static_cast<float>(Levels::value(q[i])) + min;
    }
  }
  // The least and the largest number, or 0, on the first and the last level.
  static void encode(const float* in, std::byte* block) {
    float least = 0, most = 0;
    for (int i = 0; i < kBlock; ++i) {
      least = in[i] < least ? in[i] : least;
      most = in[i] > most ? in[i] : most;
    }
    const uint16_t d = f32_to_f16((most - least) / static_cast<float>(Packed::kMost));
    const float wide = f16_to_f32(d);
    const float inverse = wide > 0 ? 1.0F / wide : 0.0F;
    const float zero = Levels::nearest(-least * inverse - static_cast<float>(kMiddle));  // beyond the middle
    uint8_t q[kBlock];
    for (int i = 0; i < kBlock; ++i) q[i] = Levels::number(Levels::nearest(in[i] * inverse + zero));
    join(d, Levels::number(zero), q, block);
  }

  // scales: 16 d, 16 −d where they are needed, 16 zeros' bytes.
  static QR_INLINE void pack(const std::byte* const* rows, std::byte* panel, std::byte* scales) {
    for (int r = 0; r < kPanelRows; ++r) {
      const std::byte* row = rows[r];
      const uint16_t d = row != nullptr ? load_as<uint16_t>(row) : uint16_t{0};
      store_as<uint16_t>(scales + 2 * r, d);
      if constexpr (Packed::kMinus) store_as<uint16_t>(scales + kMinScale + 2 * r, static_cast<uint16_t>(d ^ 0x8000U));
      scales[kMinScale + 2 * kPanelRows + r] = row != nullptr ? from_middle(row[2]) : std::byte{0};
      for (int b = 0; b < kSuper; ++b) {
        uint8_t q[kPanelDepth] = {};
        if (row != nullptr) Packed::split(row + 3 + b * Packed::kBytes, q);
        Packed::Panel::put(q, r, panel + b * kPanelBytes);
      }
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, const std::byte* scales, int row, std::byte* out) {
    uint8_t q[kBlock] = {};
    for (int b = 0; b < kSuper; ++b) Packed::Panel::get(panel + b * kPanelBytes, row, q + b * kPanelDepth);
    const auto byte = static_cast<uint8_t>(scales[kMinScale + 2 * kPanelRows + row]);
    const auto zero = static_cast<uint8_t>(Packed::kMinus ? kMiddle + byte : kMiddle - byte);
    join(load_as<uint16_t>(scales + 2 * row), zero, q, out);
  }

  template <class V, int J>
  static QR_INLINE typename V::U load_quad(const std::byte* panel) {
    return Packed::Panel::template quad<V, J>(panel);
  }
  template <class V>
  struct Scales {
    typename V::F d, min_of_all;
    Scales() = default;
    explicit QR_INLINE Scales(const std::byte* scales) {
      d = V::load_f16(reinterpret_cast<const uint16_t*>(scales));
      const auto by = V::load_f16(reinterpret_cast<const uint16_t*>(scales + kMinScale));
      min_of_all = V::mul(by, V::load_i8(scales + kMinScale + 2 * kPanelRows));
    }
    QR_INLINE typename V::F scale(int /*scale_group*/) const { return d; }
    QR_INLINE typename V::F min(int /*scale_group*/) const { return min_of_all; }
  };

 private:
  static QR_INLINE std::byte from_middle(std::byte zero) {
    const auto number = static_cast<uint8_t>(zero);
    return static_cast<std::byte>(Packed::kMinus ? number - kMiddle : kMiddle - number);
  }
};

}  // namespace quire
