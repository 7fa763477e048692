// The search for scales of blocks of 256 in scale groups, whose scales are quantised too (quant/search.h): each rounded
// scale's neighbours are tried, then the common one is refitted over all groups.
#pragma once
#include <cmath>
#include <cstdint>

#include "quant/f16.h"
#include "quant/search.h"

namespace quire::search {

// A block of 256 in scale groups whose scales are whole multiples, Multiple::kLowest … kHighest, of one half-precision
// number.
template <class Levels, class Multiple, int kScaleGroup, class Parts, class In>
class BlockScales {
 public:
  BlockScales(const In& in, const Effort& effort) : in_(in), effort_(effort) {
    for (int g = 0; g < kScaleGroups; ++g) scale_[g] = fit_scale<Levels>(scale_group(g), effort);
  }
  Parts fit() const {
    float extreme = 0;
    for (const float scale : scale_) extreme = std::fabs(scale) > std::fabs(extreme) ? scale : extreme;
    Parts best{};
    double least = INFINITY;
    best.d = f32_to_f16(extreme / Multiple::kLowest);
    uint16_t half = best.d;
    for (int round = 0; round < effort_.rounds; ++round) {
      Parts parts{};
      parts.d = half;
      double error = 0;
      double num = 0;
      double den = 0;
      for (int g = 0; g < kScaleGroups; ++g) error += choose(g, parts, num, den);
      if (error < least) best = parts;
      if (!(error < least) || !(den > 0)) break;
      least = error;
      half = f32_to_f16(static_cast<float>(num / den));
    }
    return best;
  }

 private:
  static constexpr int kScaleGroups = 256 / kScaleGroup;
  In scale_group(int g) const { return in_.part(g * kScaleGroup, kScaleGroup); }

  // Scale and numbers of a scale group at the block's d; the squared error. Adds to the regression of x on scale ·
  // level.
  double choose(int g, Parts& parts, double& num, double& den) const {
    const In at = scale_group(g);
    const float d = f16_to_f32(parts.d);
    const float lowest = Multiple::nearest(scale_[g] * inverse_of(d)) - static_cast<float>(effort_.near);
    const Four multiples = Multiple::nearest(lowest + kSteps);
    const Four errors = errors_of_lanes<Levels>(at, d * multiples, Four{});
    double least = INFINITY;
    for (int lane = 0; lane <= 2 * effort_.near; ++lane) {
      const auto here = static_cast<double>(errors[lane]);
      if (!(here < least)) continue;
      least = here;
      parts.scale[g] = static_cast<int8_t>(multiples[lane]);
    }
    const auto multiple = static_cast<float>(parts.scale[g]);
    write_numbers<Levels>(at.x, kScaleGroup, {d * multiple, 0}, parts.q + g * kScaleGroup);
    for (int i = 0; i < kScaleGroup; ++i) {
      const auto a = static_cast<double>(multiple * static_cast<float>(Levels::value(parts.q[g * kScaleGroup + i])));
      const double weighted = static_cast<double>(at.weight(i)) * a;
      num += weighted * static_cast<double>(at.x[i]);
      den += weighted * a;
    }
    return least;
  }

  In in_;
  const Effort& effort_;
  float scale_[kScaleGroups];
};

// A block of 256 in scale groups whose scales and mins are whole multiples, 0 … Multiple::kHighest, of two
// half-precision numbers.
template <class Levels, class Multiple, int kScaleGroup, class Parts, class In>
class BlockLines {
  using Lanes = typename LanesOf<In::kLanes>::Type;

 public:
  BlockLines(const In& in, const Effort& effort) : in_(in), effort_(effort) {
    for (int g = 0; g < kScaleGroups; ++g) lines_[g] = fit_line<Levels>(scale_group(g), 0, effort);
  }
  Parts fit() const {
    float scale = 0;
    float min = 0;
    for (const LineFit& line : lines_) {
      scale = std::fmax(scale, line.scale);
      min = std::fmax(min, -line.min);
    }
    Parts best{};
    best.d = f32_to_f16(scale / Multiple::kHighest);
    best.dmin = f32_to_f16(min / Multiple::kHighest);
    double least = INFINITY;
    uint16_t d = best.d;
    uint16_t dmin = best.dmin;
    for (int round = 0; round < effort_.rounds; ++round) {
      Parts parts{};
      parts.d = d;
      parts.dmin = dmin;
      double error = 0;
      for (int g = 0; g < kScaleGroups; ++g) error += choose(g, parts);
      if (!(error < least)) break;
      least = error;
      best = parts;
      if (!refit(parts, d, dmin)) break;
    }
    return best;
  }

 private:
  static constexpr int kScaleGroups = 256 / kScaleGroup;
  In scale_group(int g) const { return in_.part(g * kScaleGroup, kScaleGroup); }

  // Scale, min and numbers of a scale group at the block's d and dmin; the squared error.
  double choose(int g, Parts& parts) const {
    const In at = scale_group(g);
    const float d = f16_to_f32(parts.d);
    const float dmin = f16_to_f32(parts.dmin);
    const float s0 = Multiple::nearest(lines_[g].scale * inverse_of(d));
    const float m0 = Multiple::nearest(-lines_[g].min * inverse_of(dmin));
    double least = INFINITY;
    const int n_near = 2 * effort_.near + 1;
    for (int first = 0; first < n_near * n_near; first += In::kLanes) {
      Lanes scales = {};
      Lanes mins = {};
      for (int lane = 0; lane < In::kLanes; ++lane) {
        const int pair = first + lane < n_near * n_near ? first + lane : 0;
        const int s_near = pair / n_near - effort_.near;
        const int m_near = pair % n_near - effort_.near;
        scales[lane] = Multiple::nearest(s0 + static_cast<float>(s_near));
        mins[lane] = Multiple::nearest(m0 + static_cast<float>(m_near));
      }
      const Lanes errors = errors_of_lanes<Levels>(at, d * scales, -(dmin * mins));
      for (int lane = 0; lane < In::kLanes; ++lane) {
        const auto error = static_cast<double>(errors[lane]);
        if (!(error < least)) continue;
        least = error;
        parts.scale[g] = static_cast<int8_t>(scales[lane]);
        parts.min[g] = static_cast<uint8_t>(mins[lane]);
      }
    }
    const LineFit line{d * static_cast<float>(parts.scale[g]), -(dmin * static_cast<float>(parts.min[g]))};
    write_numbers<Levels>(at.x, kScaleGroup, line, parts.q + g * kScaleGroup);
    return least;
  }

  // Regression of x on a = scale · number and b = −min; false where it has no positive solution.
  bool refit(const Parts& parts, uint16_t& d, uint16_t& dmin) const {
    double aa = 0;
    double ab = 0;
    double bb = 0;
    double xa = 0;
    double xb = 0;
    for (int i = 0; i < 256; ++i) {
      const int g = i / kScaleGroup;
      const double a = int{parts.scale[g]} * Levels::value(parts.q[i]);
      const double b = -int{parts.min[g]};
      const auto x = static_cast<double>(in_.x[i]);
      const auto weight = static_cast<double>(in_.weight(i));
      aa += weight * a * a;
      ab += weight * a * b;
      bb += weight * b * b;
      xa += weight * x * a;
      xb += weight * x * b;
    }
    const double determinant = aa * bb - ab * ab;
    const double new_d = (xa * bb - xb * ab) / determinant;
    const double new_dmin = (xb * aa - xa * ab) / determinant;
    if (!(determinant > 0) || !(new_d > 0) || !(new_dmin > 0)) return false;
    d = f32_to_f16(static_cast<float>(new_d));
    dmin = f32_to_f16(static_cast<float>(new_dmin));
    return true;
  }

  In in_;
  const Effort& effort_;
  LineFit lines_[kScaleGroups];
};

}  // namespace quire::search
