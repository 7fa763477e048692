// How a block is encoded: by the format's own `encode`, or by the search for scales where it has levels to choose.
// Included where formats become runtime entries, not by kernels.
#pragma once
#include <cmath>
#include <type_traits>

#include "quant/block_format.h"
#include "quant/encoding.h"
#include "quant/grid_search.h"
#include "quant/k_format.h"
#include "quant/search.h"
#include "quant/search_blocks.h"

namespace quire {

// Calls `fit` with the n numbers at x as `how` weighs them, and with how far to go.
template <int kLanes, class Fit>
inline auto with_numbers(const float* x, int n, const Encoding& how, const Fit& fit) {
  const search::Effort& effort = how.quick ? search::kQuick : search::kThorough;
  if (how.importance == nullptr) return fit(search::Numbers<false, kLanes>{x, nullptr, n}, effort);
  return fit(search::Numbers<true, kLanes>{x, how.importance, n}, effort);
}

// Blocks of 32 with one scale, or with a scale and an offset. Measured with importances (docs/io.md): a lone scale does
// best that shrinks nothing; a line does best with importances to the power of 3/4, which trusts their text a little
// less.
template <class T, int kLanes>
void encode_block(const float* x, std::byte* block, const Encoding& how) {
  using Levels = search::Ascending<typename T::Levels>;
  Encoding tempered = how;
  float weights[T::kBlock];
  if (T::kMins && how.importance != nullptr) {
    for (int i = 0; i < T::kBlock; ++i) weights[i] = std::sqrt(how.importance[i] * std::sqrt(how.importance[i]));
    tempered.importance = weights;
  }
  const LineFit fit = with_numbers<kLanes>(x, T::kBlock, tempered, [](const auto& in, const search::Effort& effort) {
    if constexpr (T::kMins) {
      return search::fit_line<Levels>(in, INFINITY, effort);
    } else {
      const float scale = search::fit_scale<Levels>(in, effort);
      return LineFit{in.kHasWeights ? search::unshrunk<Levels>(in, scale) : scale, 0};
    }
  });
  BlockParts parts{};
  parts.d = f32_to_f16(fit.scale);
  LineFit stored{f16_to_f32(parts.d), 0};
  if constexpr (T::kMins) {
    parts.m = f32_to_f16(fit.min);
    stored.min = f16_to_f32(parts.m);
  }
  search::write_numbers<Levels>(x, T::kBlock, stored, parts.q);
  T::join(parts, block);
}

// Blocks of 256 in scale groups. Scales lie in [kLowScale, kHighScale], mins in [0, kHighScale].
template <class T, int kLanes>
void encode_scale_groups(const float* x, std::byte* block, const Encoding& how) {
  using Levels = search::Ascending<typename T::Levels>;
  using Multiple = search::Ascending<Whole<T::kLowScale, T::kHighScale>>;
  const KParts parts = with_numbers<kLanes>(x, T::kBlock, how, [](const auto& in, const search::Effort& effort) {
    using In = std::decay_t<decltype(in)>;
    if constexpr (T::kMins) {
      return search::BlockLines<Levels, Multiple, T::kScaleGroup, KParts, In>(in, effort).fit();
    } else {
      return search::BlockScales<Levels, Multiple, T::kScaleGroup, KParts, In>(in, effort).fit();
    }
  });
  T::join(parts, block);
}

// Formats with levels to choose: their scales are searched for, kLanes candidates side by side.
template <class T>
inline constexpr bool kSearches =
    !kHasGrid<T> && !requires(const float* in, std::byte* block) { T::encode(in, block); };

template <class T, int kLanes = 4>
void encode_as(const float* in, std::byte* block, const Encoding& how) {
  if constexpr (kHasGrid<T>) {
    grid_search::encode<T>(in, block, how.importance);
  } else if constexpr (!kSearches<T>) {
    T::encode(in, block);
  } else if constexpr (T::kBlock == 256) {
    encode_scale_groups<T, kLanes>(in, block, how);
  } else {
    encode_block<T, kLanes>(in, block, how);
  }
}

// Of a set of encoders that is compiled for one instruction set: those without a search have nothing to gain there.
template <class T, int kLanes>
consteval Encoder encoder_of() {
  if constexpr (kSearches<T>) return &encode_as<T, kLanes>;
  return nullptr;
}

}  // namespace quire
