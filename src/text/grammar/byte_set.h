// A set of the 256 bytes: what one step of a lexeme may be. Plain data.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

namespace quire::grammar {

struct ByteSet {
  std::array<uint64_t, 4> words{};

  static constexpr ByteSet range(unsigned first, unsigned last) {
    ByteSet s;
    for (unsigned b = first; b <= last; ++b) s.add(static_cast<uint8_t>(b));
    return s;
  }
  static constexpr ByteSet all() { return {{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}}}; }

  constexpr void add(uint8_t b) { words[b >> 6] |= uint64_t{1} << (b & 63); }
  constexpr bool has(uint8_t b) const { return (words[b >> 6] >> (b & 63) & 1) != 0; }
  constexpr bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  constexpr int count() const {
    return std::popcount(words[0]) + std::popcount(words[1]) + std::popcount(words[2]) + std::popcount(words[3]);
  }
  // The lowest byte. REQUIRES !empty().
  constexpr uint8_t lowest() const {
    for (unsigned w = 0; w < 4; ++w) {
      if (words[w] != 0) return static_cast<uint8_t>(w * 64 + static_cast<unsigned>(std::countr_zero(words[w])));
    }
    return 0;
  }
  constexpr ByteSet operator|(const ByteSet& o) const {
    return {{words[0] | o.words[0], words[1] | o.words[1], words[2] | o.words[2], words[3] | o.words[3]}};
  }
  constexpr ByteSet operator&(const ByteSet& o) const {
    return {{words[0] & o.words[0], words[1] & o.words[1], words[2] & o.words[2], words[3] & o.words[3]}};
  }
  constexpr ByteSet operator~() const { return {{~words[0], ~words[1], ~words[2], ~words[3]}}; }
  bool operator==(const ByteSet&) const = default;
};

}  // namespace quire::grammar
