// Encodes the formats of grids (quant/grid_format.h). A scale for each scale group: of a few around the one that keeps
// its largest number, the one under which the nearest groups of the grid have the least squared error; then, of the
// scales next to it that the block can hold, the best again. The whole grid is looked through: the error of a group is
// the sum of its halves', of which there are few. Included where formats become runtime entries, not by kernels.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/grid_format.h"

namespace quire {

template <class T>
inline constexpr bool kHasGrid = requires { T::kGrid; };

namespace grid_search {

// Of the scale that keeps the largest number.
inline constexpr float kTried[] = {0.6F, 0.7F, 0.8F, 0.9F, 1.0F, 1.15F};

// The group of a grid that is nearest to kPer numbers.
template <class T>
class Nearest {
 public:
  using Grid = typename T::Grid;
  static constexpr int kPer = Grid::kLength, kElements = 1 << Grid::kBits;

  // signs: of each number, as Grid has them. Writes kPer numbers; the squared error.
  float write(const float* x, const float* weights, float scale, unsigned signs, uint8_t* q) {
    for (int i = 0; i < kPer; ++i) {
      for (int e = 0; e < kElements; ++e) {
        const auto number = static_cast<uint8_t>(e | static_cast<int>(signs >> i & 1U) << Grid::kBits);
        const float error = x[i] - scale * static_cast<float>(T::Levels::value(number));
        cost_[i][e] = weights[i] * (error * error);
      }
    }
    sum_half(0, low_);
    sum_half(kPer / 2, high_);
    const float least_low = *std::min_element(low_, low_ + kHalves);
    unsigned best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (unsigned half = 0; half < kHalves; ++half) {
      if (!(high_[half] + least_low < least)) continue;
      for (unsigned at = kFirst[half]; at < kFirst[half + 1]; ++at) {
        const float error = low_[T::kGrid[at] % kHalves] + high_[half];
        best = error < least ? at : best;
        least = error < least ? error : least;
      }
    }
    Grid::put(T::kGrid, best, signs, q);
    return least;
  }

 private:
  static constexpr unsigned kHalves = 1U << (Grid::kBits * kPer / 2);
  // Of each upper half, where the groups that have it begin in the grid, which is in ascending order.
  static constexpr std::array<uint16_t, kHalves + 1> kFirst = [] {
    std::array<uint16_t, kHalves + 1> out{};
    for (const unsigned elements : T::kGrid) ++out[elements / kHalves + 1];
    for (size_t half = 1; half < out.size(); ++half) out[half] = static_cast<uint16_t>(out[half] + out[half - 1]);
    return out;
  }();

  void sum_half(int first, float* out) const {
    std::copy_n(cost_[first], kElements, out);
    unsigned n = kElements;
    for (int i = first + 1; i < first + kPer / 2; ++i, n *= kElements) {
      for (unsigned e = kElements; e-- > 0;) {  // the lowest elements last: they are read until then
        for (unsigned k = 0; k < n; ++k) out[e * n + k] = out[k] + cost_[i][e];
      }
    }
  }

  float cost_[kPer][kElements];
  float low_[kHalves], high_[kHalves];
};

template <class T>
class Search {
 public:
  // importance: as Encoding has it.
  Search(const float* in, const float* importance) : x_(in) {
    for (int i = 0; i < T::kBlock; ++i) weights_[i] = importance != nullptr ? importance[i] : 1.0F;
  }

  KParts fit() {
    float wanted[T::kScaleGroups];
    float most = 0;
    for (int g = 0; g < T::kScaleGroups; ++g) {
      wanted[g] = best_scale(g);
      most = std::max(most, wanted[g]);
    }
    KParts parts{};
    parts.d = f32_to_f16(std::min(most / (T::kUnit * (2 * T::kMostScale + 1)), 65504.0F));
    const float unit = f16_to_f32(parts.d) * T::kUnit;
    for (int g = 0; g < T::kScaleGroups; ++g) {
      const float near = unit > 0 ? (wanted[g] / unit - 1) / 2 : 0;
      const int middle = static_cast<int>(std::lround(std::clamp(near, 0.0F, static_cast<float>(T::kMostScale))));
      float least = std::numeric_limits<float>::infinity();
      const int first = std::max(middle - 1, 0);
      for (int s = first; s <= std::min(middle + 1, T::kMostScale); ++s) {
        uint8_t q[T::kScaleGroup];
        const float error = write_group(g, unit * static_cast<float>(2 * s + 1), q);
        if (s != first && !(error < least)) continue;
        least = error;
        parts.scale[g] = static_cast<int8_t>(2 * s + 1);
        std::memcpy(parts.q + g * T::kScaleGroup, q, sizeof q);
      }
    }
    return parts;
  }

 private:
  // Numbers whose signs, or whose shift, are decided together.
  static constexpr int kTogether = T::kShiftGroup > 0 ? T::kShiftGroup : 8;

  float best_scale(int g) {
    float most = 0;
    for (int i = 0; i < T::kScaleGroup; ++i) most = std::max(most, std::fabs(x_[g * T::kScaleGroup + i]));
    const float covering = std::min(most, std::numeric_limits<float>::max()) / T::Levels::kHighest;
    float best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (const float tried : kTried) {
      uint8_t q[T::kScaleGroup];
      const float error = write_group(g, covering * tried, q);
      if (!(error < least)) continue;
      least = error;
      best = covering * tried;
    }
    return best;
  }

  float write_group(int g, float scale, uint8_t* q) {
    float error = 0;
    for (int i = 0; i < T::kScaleGroup; i += kTogether) {
      const int first = g * T::kScaleGroup + i;
      error += T::kShiftGroup > 0 ? write_shifted(first, scale, q + i) : write_signed(first, scale, q + i);
    }
    return error;
  }

  float write_shifted(int first, float scale, uint8_t* q) {
    uint8_t down[kTogether];
    const float up_error = write_pieces(first, scale, 0, q);
    const float down_error = write_pieces(first, scale, ~0U, down);
    if (!(down_error < up_error)) return up_error;
    std::memcpy(q, down, sizeof down);
    return down_error;
  }

  float write_signed(int first, float scale, uint8_t* q) {
    unsigned signs = 0;
    int smallest = 0;  // where a wrong sign costs least
    for (int i = 0; i < kTogether; ++i) {
      if (x_[first + i] < 0) signs |= 1U << i;
      if (cost_of_sign(first + i) < cost_of_sign(first + smallest)) smallest = i;
    }
    if (T::kEvenSigns && __builtin_popcount(signs) % 2 != 0) signs ^= 1U << smallest;
    return write_pieces(first, scale, signs, q);
  }
  float cost_of_sign(int i) const { return weights_[i] * std::fabs(x_[i]); }

  float write_pieces(int first, float scale, unsigned signs, uint8_t* q) {
    constexpr int kPer = Nearest<T>::kPer;
    float error = 0;
    for (int i = 0; i < kTogether; i += kPer) {
      const unsigned own = T::kShiftGroup > 0 ? signs : signs >> i;
      error += nearest_.write(x_ + first + i, weights_ + first + i, scale, own, q + i);
    }
    return error;
  }

  const float* x_;
  float weights_[T::kBlock];
  Nearest<T> nearest_;
};

template <class T>
void encode(const float* in, std::byte* block, const float* importance) {
  T::join(Search<T>(in, importance).fit(), block);
}

}  // namespace grid_search
}  // namespace quire
