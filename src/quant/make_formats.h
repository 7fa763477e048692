// Turns the struct of a format or codec into its runtime entry. Included by the generated registry only.
#pragma once
#include "quant/encode.h"
#include "quant/kv_codec.h"
#include "quant/weight_format.h"

namespace quire {

template <class T>
inline constexpr WeightFormat kWeightFormat{
    T::kName,
    T::kGgmlType,
    T::kBlock,
    T::kBytes,
    T::kInteger,
    T::kRounded,
    [](const std::byte* block, float* out) { T::decode(block, out); },
    [](const float* in, std::byte* block) { encode_as<T>(in, block, {}); },
};

// Keys and values of most codecs lie in the same form.
template <class T>
struct KvForms {
  static constexpr std::string_view kKeys = T::kName, kValues = T::kName;
  static int64_t k_row_bytes(int dim) { return T::row_bytes(dim); }
  static int64_t v_row_bytes(int dim) { return T::row_bytes(dim); }
};
template <class T>
  requires requires { T::k_row_bytes(1); }
struct KvForms<T> : T {};

template <class T>
inline constexpr KvCodec kKvCodec{
    T::kName,
    KvForms<T>::kKeys,
    KvForms<T>::kValues,
    T::kTogether == 2,
    T::kValuesInKeys,
    T::kRotatesKeys,
    T::kForResearch,
    [](int dim) { return KvForms<T>::k_row_bytes(dim); },
    [](int dim) { return KvForms<T>::v_row_bytes(dim); },
    [](std::byte* strip, int t, int dim, const float* row) { T::put_k(strip, t, dim, row); },
    [](const std::byte* strip, int t, int dim, float* row) { T::get_k(strip, t, dim, row); },
    [](std::byte* strip, int t, int dim, const float* row) { T::put_v(strip, t, dim, row); },
    [](const std::byte* strip, int t, int dim, float* row) { T::get_v(strip, t, dim, row); },
};

}  // namespace quire
