// How an adapter's numbers are held: as narrow as they are without rounding one of them. What training saves in BF16 or
// F16 takes half the memory that it would as F32, and a step that reads it half the time; bits are the same. Pure
// functions; any thread.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/held_as.h"
#include "quant/f16.h"
#include "tensor/tensor.h"

namespace quire {

inline DType dtype_of(HeldAs held) {
  if (held == HeldAs::f32) return DType::f32;
  return held == HeldAs::f16 ? DType::f16 : DType::bf16;
}
// REQUIRES one of the three above.
inline HeldAs held_as(DType dtype) {
  if (dtype == DType::f32) return HeldAs::f32;
  return dtype == DType::f16 ? HeldAs::f16 : HeldAs::bf16;
}

inline HeldAs narrowest(std::span<const float> numbers) {
  const auto bits = [](float v) { return std::bit_cast<uint32_t>(v); };
  if (std::ranges::all_of(numbers, [&](float v) { return (bits(v) & 0xffffU) == 0; })) return HeldAs::bf16;
  const auto is_f16 = [&](float v) { return bits(f16_to_f32(f32_to_f16(v))) == bits(v); };
  return std::ranges::all_of(numbers, is_f16) ? HeldAs::f16 : HeldAs::f32;
}

// REQUIRES a number that can be held so.
inline void hold(float number, HeldAs held, std::byte* at) {
  if (held == HeldAs::f32) return store_as(at, number);
  store_as(at, held == HeldAs::f16 ? f32_to_f16(number) : f32_to_bf16(number));
}

}  // namespace quire
