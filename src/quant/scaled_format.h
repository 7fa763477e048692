// Formats of eight-bit floats, e4m3, in blocks of kBlock with one scale in f32:
//   file block: f32 d | kBlock bytes          value = d · e4m3(byte), rounded to f32
// Kernels multiply in f32, as with other float formats. They are what folders of FP8 weights store; GGUF has no such
// types.
#pragma once
#include "quant/e4m3.h"
#include "quant/weight_format.h"

namespace quire {

template <int kBlockOf>
struct ScaledE4m3 {
  static constexpr uint32_t kGgmlType = kNoGgmlType;
  static constexpr int kBlock = kBlockOf;
  static constexpr int kBytes = 4 + kBlock;
  static constexpr bool kInteger = false;
  static constexpr bool kRounded = false;
  static constexpr int kScaleBytes = kPanelRows * 4;                     // of a block of 16 rows
  static constexpr int kBlockBytes = kScaleBytes + kPanelRows * kBlock;  // with its numbers, [k][16]
  static constexpr int kPanelBytes = kBlockBytes / (kBlock / kPanelDepth);
  static constexpr int kPanelScaleBytes = 0;

  static QR_INLINE void decode(const std::byte* block, float* out) {
    const auto d = load_as<float>(block);
    for (int i = 0; i < kBlock; ++i) out[i] = d * e4m3_to_f32(static_cast<uint8_t>(block[4 + i]));
  }
  // The scale is the least bfloat16 under which nothing is beyond the last number, so that products are exact.
  static QR_INLINE void encode(const float* in, std::byte* block) {
    float most = 0;
    for (int i = 0; i < kBlock; ++i) most = __builtin_fabsf(in[i]) > most ? __builtin_fabsf(in[i]) : most;
    const uint32_t bits = std::bit_cast<uint32_t>(most / kMostE4m3);
    const float d = std::bit_cast<float>((bits + 0xffffU) & 0xffff0000U);
    const float inverse = d >= 0x1p-126F ? 1.0F / d : 0.0F;
    store_as<float>(block, d);
    for (int i = 0; i < kBlock; ++i) block[4 + i] = static_cast<std::byte>(f32_to_e4m3(in[i] * inverse));
  }

  // depth: kBlock, always, since rows are whole blocks.
  static QR_INLINE void pack(const std::byte* const* rows, int /*depth*/, std::byte* panel) {
    for (int r = 0; r < kPanelRows; ++r) {
      const std::byte* row = rows[r];
      store_as<float>(panel + 4 * r, row != nullptr ? load_as<float>(row) : 0.0F);
      std::byte* to = panel + kScaleBytes + r;
      for (int k = 0; k < kBlock; ++k) to[k * kPanelRows] = row != nullptr ? row[4 + k] : std::byte{0};
    }
  }
  static QR_INLINE void unpack(const std::byte* panel, int row, int /*depth*/, std::byte* out) {
    store_as<float>(out, load_as<float>(panel + 4 * row));
    for (int k = 0; k < kBlock; ++k) out[4 + k] = panel[kScaleBytes + k * kPanelRows + row];
  }
  template <class V>
  static QR_INLINE void load_two(const std::byte* panel, int64_t k, typename V::F* out) {
    const std::byte* block = panel + k / kBlock * kBlockBytes;
    const auto d = V::load(reinterpret_cast<const float*>(block));
    const std::byte* from = block + kScaleBytes + k % kBlock * kPanelRows;
    out[0] = V::mul(d, V::load_e4m3(from));
    out[1] = V::mul(d, V::load_e4m3(from + kPanelRows));
  }
};

}  // namespace quire
