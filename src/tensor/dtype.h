// Element types of plain tensors. Packed weights are bytes (u8) with a WeightFormat beside them (quant/).
#pragma once
#include <cstdint>
#include <string_view>

namespace quire {

enum class DType : uint8_t { f32, f16, bf16, i32, i64, u8 };

constexpr int64_t dtype_bytes(DType t) {
  switch (t) {
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType t) {
  switch (t) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
  }
  return "?";
}

}  // namespace quire
