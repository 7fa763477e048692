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

template <class T>
inline constexpr KvCodec kKvCodec{
    T::kName,
    T::kTogether == 2,
    [](int dim) { return T::row_bytes(dim); },
    [](std::byte* group, int t, int dim, const float* row) { T::put_k(group, t, dim, row); },
    [](const std::byte* group, int t, int dim, float* row) { T::get_k(group, t, dim, row); },
    [](std::byte* group, int t, int dim, const float* row) { T::put_v(group, t, dim, row); },
    [](const std::byte* group, int t, int dim, float* row) { T::get_v(group, t, dim, row); },
};

}  // namespace quire
