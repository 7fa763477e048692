// What tests read panels with: a vector of 16 rows without vectors.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>

#include "quant/e4m3.h"
#include "quant/f16.h"
#include "quant/weight_format.h"

namespace quire {

// What a panel is read with, without vectors. Of integer formats the bytes that the kernels multiply: value + kZero of
// row r, k = 4·J + i in byte 4·r + i.
struct PlainVec {
  using F = std::array<float, kPanelRows>;
  using U = std::array<uint8_t, 64>;
  static U load_bytes(const std::byte* p) {
    U out;
    std::memcpy(out.data(), p, out.size());
    return out;
  }
  template <int kShift, int kMask>
  static U bits(U x) {
    for (uint8_t& b : x) b = static_cast<uint8_t>((kShift > 0 ? b >> kShift : b << -kShift) & kMask);
    return x;
  }
  static U either(U x, const U& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] |= y[i];
    return x;
  }
  template <uint64_t kLowWord, uint64_t kHighWord>
  static U look_up(U x) {
    for (uint8_t& b : x) b = static_cast<uint8_t>((b < 8 ? kLowWord : kHighWord) >> (8 * (b % 8)));
    return x;
  }
  static F set1(float v) {
    return each([&](size_t) { return v; });
  }
  static F each(const std::function<float(size_t)>& fn) {
    F out;
    for (size_t i = 0; i < out.size(); ++i) out[i] = fn(i);
    return out;
  }
  static F load(const float* p) {
    return each([&](size_t i) { return p[i]; });
  }
  static F load_f16(const uint16_t* p) {
    return each([&](size_t i) { return f16_to_f32(p[i]); });
  }
  static F load_bf16(const uint16_t* p) {
    return each([&](size_t i) { return bf16_to_f32(p[i]); });
  }
  static void load_bf16_pairs(const uint16_t* p, F* two) {
    for (size_t odd = 0; odd < 2; ++odd) two[odd] = each([&](size_t i) { return bf16_to_f32(p[2 * i + odd]); });
  }
  static F load_e4m3(const std::byte* p) {
    return each([&](size_t i) { return e4m3_to_f32(static_cast<uint8_t>(p[i])); });
  }
  static F load_i8(const std::byte* p) {
    return each([&](size_t i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
  }
  template <int kShift>
  static F load_nibbles(const std::byte* p) {
    return each([&](size_t i) { return static_cast<float>(static_cast<int>(p[i]) >> kShift & 15); });
  }
  template <int kShift>
  static F load_centred_nibbles(const std::byte* p) {
    return each([&](size_t i) { return static_cast<float>((static_cast<int>(p[i]) >> kShift & 15) - 8); });
  }
  static F mul(const F& a, const F& b) {
    return each([&](size_t i) { return a[i] * b[i]; });
  }
};

}  // namespace quire
