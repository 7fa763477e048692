// Weight format TQ1_0: blocks of 256 numbers −1, 0, 1 with one scale, five numbers in a byte (GGUF type 34).
//   file block: 48 + 4 bytes of numbers | f16 d          value = d · (number − 1)
//   A byte is ⌈256 · t / 243⌉ of t = Σ 3^(4 − p) · number p. Of the first 32 bytes, byte i has the numbers 32·p + i, of
//   the next 16 those at 160 + 16·p + i, of the last four those at 240 + 4·p + i, p < 4.
#pragma once
#include "quant/k_format.h"
#include "quant/ternary.h"

namespace quire {

struct TQ1_0 : KFormat<TQ1_0, Whole<-1, 1>, Numbers2, 32, SubScale::only> {
  static constexpr std::string_view kName = "tq1_0";
  static constexpr uint32_t kGgmlType = 34;
  static constexpr int kBytes = 54;
  static constexpr bool kHasSpares = true;  // bytes that no encoder writes mean what others mean, too

  static QR_INLINE void split(const std::byte* block, KParts& parts) {
    split_run<5>(block, 32, parts.q);
    split_run<5>(block + 32, 16, parts.q + 160);
    split_run<4>(block + 48, 4, parts.q + 240);
    set_ternary_scales(load_as<uint16_t>(block + 52), parts);
  }
  static QR_INLINE void join(const KParts& parts, std::byte* block) {
    join_run<5>(parts.q, 32, block);
    join_run<5>(parts.q + 160, 16, block + 32);
    join_run<4>(parts.q + 240, 4, block + 48);
    store_as<uint16_t>(block + 52, parts.d);
  }
  static QR_INLINE void encode(const float* in, std::byte* block) {
    KParts parts{};
    fit_ternary(in, parts);
    join(parts, block);
  }

 private:
  template <int kPer>
  static QR_INLINE void split_run(const std::byte* from, int n, uint8_t* q) {
    for (int i = 0; i < n; ++i) {
      unsigned byte = static_cast<uint8_t>(from[i]);
      for (int p = 0; p < kPer; ++p) {
        q[n * p + i] = static_cast<uint8_t>(byte * 3 >> 8);
        byte = byte * 3 & 255;
      }
    }
  }
  template <int kPer>
  static QR_INLINE void join_run(const uint8_t* q, int n, std::byte* to) {
    for (int i = 0; i < n; ++i) {
      unsigned t = 0;
      for (int p = 0; p < 5; ++p) t = 3 * t + (p < kPer ? q[n * p + i] : 0);
      to[i] = static_cast<std::byte>((t * 256 + 242) / 243);
    }
  }
};

}  // namespace quire
