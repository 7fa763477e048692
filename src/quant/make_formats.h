// Turns the struct of a format or codec into its runtime entry. Included by the generated registry only.
#pragma once
#include <cstddef>

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

// Of codecs that pack strips: what rows lie in until then, and how they are packed instead of put.
template <class T>
struct KvWriting {
  static constexpr std::string_view kTail = {};
  static constexpr auto put_k = [](std::byte* strip, int t, int dim, const float* row) {
    T::put_k(strip, t, dim, row);
  };
  static constexpr auto put_v = [](std::byte* strip, int t, int dim, const float* row) {
    T::put_v(strip, t, dim, row);
  };
  static constexpr std::nullptr_t pack_k = nullptr, pack_v = nullptr;
};
template <class T>
  requires(T::kPacks)
struct KvWriting<T> {
  static constexpr std::string_view kTail = T::Tail::kName;
  static constexpr std::nullptr_t put_k = nullptr, put_v = nullptr;
  static constexpr auto pack_k = [](const float* rows, int dim, std::byte* strip) { T::pack_k(rows, dim, strip); };
  static constexpr auto pack_v = [](const float* rows, int dim, std::byte* strip) { T::pack_v(rows, dim, strip); };
};

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
    KvWriting<T>::kTail,
    KvWriting<T>::put_k,
    [](const std::byte* strip, int t, int dim, float* row) { T::get_k(strip, t, dim, row); },
    KvWriting<T>::put_v,
    [](const std::byte* strip, int t, int dim, float* row) { T::get_v(strip, t, dim, row); },
    KvWriting<T>::pack_k,
    KvWriting<T>::pack_v,
};

}  // namespace quire
