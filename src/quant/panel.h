// Where the numbers of an integer format lie in a panel block of 16 rows × 32 k. A quad is the four numbers k = 4·j …
// 4·j + 3 of a row, 0 ≤ j < 8; a line is 64 bytes, byte 4·r + i belongs to row r, k ≡ i (mod 4). A plane keeps some
// bits of every number, as many quads in a line as fit: one load, one shift and one AND give a quad of all 16 rows.
#pragma once
#include "quant/f16.h"
#include "quant/weight_format.h"

namespace quire {

// Bits [kAt, kAt + kBits) of the numbers. Quad j is in line j / kPer, from bit kBits · (j mod kPer) of each byte.
template <int kBits, int kAt>
struct Plane {
  static constexpr int kPer = 8 / kBits;
  static constexpr int kBytes = 64 * kBits;
  static constexpr uint32_t kMask = ((1U << kBits) - 1) << kAt;
  static constexpr uint32_t kQuadMask = kMask * 0x01010101U;

  static QR_INLINE void put(const uint8_t* q, int row, std::byte* panel) {
    for (int line = 0; line < kBits; ++line) {
      uint32_t word = 0;
      for (int i = 0; i < kPer; ++i) {
        uint32_t quad;
        std::memcpy(&quad, q + 4 * (line * kPer + i), 4);
        word |= (quad & kQuadMask) >> kAt << (kBits * i);
      }
      store_as<uint32_t>(panel + 64 * line + 4 * row, word);
    }
  }
  // Sets the plane's bits in q; the others stay.
  static QR_INLINE void get(const std::byte* panel, int row, uint8_t* q) {
    for (int j = 0; j < kPanelDepth / 4; ++j) {
      const uint32_t word = load_as<uint32_t>(panel + 64 * (j / kPer) + 4 * row);
      uint32_t quad;
      std::memcpy(&quad, q + 4 * j, 4);
      quad |= word >> (kBits * (j % kPer)) << kAt & kQuadMask;
      std::memcpy(q + 4 * j, &quad, 4);
    }
  }
  template <class V, int J>
  static QR_INLINE typename V::U quad(const std::byte* panel) {
    return V::template bits<kBits*(J % kPer) - kAt, static_cast<int>(kMask)>(V::load_bytes(panel + 64 * (J / kPer)));
  }
};

// Numbers whose bits are in two planes, one behind the other.
template <class Low, class High>
struct TwoPlanes {
  static constexpr int kBytes = Low::kBytes + High::kBytes;

  static QR_INLINE void put(const uint8_t* q, int row, std::byte* panel) {
    Low::put(q, row, panel);
    High::put(q, row, panel + Low::kBytes);
  }
  static QR_INLINE void get(const std::byte* panel, int row, uint8_t* q) {
    Low::get(panel, row, q);
    High::get(panel + Low::kBytes, row, q);
  }
  template <class V, int J>
  static QR_INLINE typename V::U quad(const std::byte* panel) {
    return V::either(Low::template quad<V, J>(panel), High::template quad<V, J>(panel + Low::kBytes));
  }
};

using Numbers2 = Plane<2, 0>;
using Numbers3 = TwoPlanes<Plane<2, 0>, Plane<1, 2>>;
using Numbers4 = Plane<4, 0>;
using Numbers5 = TwoPlanes<Plane<4, 0>, Plane<1, 4>>;
using Numbers6 = TwoPlanes<Plane<4, 0>, Plane<2, 4>>;

// Panels of numbers that stand for levels, as kernels read them: the base of formats that have such.
template <class Levels, class Numbers>
struct LevelPanel {
  template <class V, int J>
  static QR_INLINE typename V::U load_quad(const std::byte* panel) {
    return Levels::template bytes<V>(Numbers::template quad<V, J>(panel));
  }
};

}  // namespace quire
