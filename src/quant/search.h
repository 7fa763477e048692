// Encoders' search for scales: of many scales around the one that just covers the numbers, the one with the least
// squared error, each judged at its own best fit. With levels q fixed, the best scale of x ≈ s·q is Σxq / Σqq and its
// error Σxx − (Σxq)² / Σqq; the best line x ≈ s·q + m is the regression line. Choosing levels for a scale and a scale
// for the levels in turn never gets worse (Lloyd 1982), so the best candidate is polished that way. Groups whose scales
// are quantised too try the neighbours of each rounded scale, then refit the common one over all of them.
// Pure functions, any thread. Numbers that are not finite give some block, never undefined behaviour.
#pragma once
#include <cmath>
#include <cstdint>

#include "quant/levels.h"

namespace quire {

struct LineFit {
  float scale = 0, min = 0;  // x ≈ scale · level + min
};

namespace search {

inline constexpr int kPolish = 4;  // rounds; more change nothing that can be seen

struct Sums {
  double q = 0, qq = 0, xq = 0;
};

// Σ over the levels nearest to (x − offset) · inverse, of x − offset. Eight partial sums, so that it vectorises.
template <class Levels>
inline Sums sums_at(const float* x, int n, float offset, float inverse) {
  float q[8] = {};
  float qq[8] = {};
  float xq[8] = {};
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float v = x[i + l] - offset;
      const float level = Levels::nearest(v * inverse);
      q[l] += level;
      qq[l] += level * level;
      xq[l] += v * level;
    }
  }
  Sums out;
  for (int l = 0; l < 8; ++l) {
    out.q += static_cast<double>(q[l]);
    out.qq += static_cast<double>(qq[l]);
    out.xq += static_cast<double>(xq[l]);
  }
  return out;
}

inline float inverse_of(float scale) { return scale != 0 ? 1.0F / scale : 0.0F; }

// Σ (x − (scale · level + min))² with the nearest levels.
template <class Levels>
inline double error_at(const float* x, int n, LineFit fit) {
  const float inverse = inverse_of(fit.scale);
  float sum[8] = {};
  for (int i = 0; i < n; i += 8) {
    for (int l = 0; l < 8; ++l) {
      const float v = x[i + l] - fit.min;
      const float error = v - fit.scale * Levels::nearest(v * inverse);
      sum[l] += error * error;
    }
  }
  double out = 0;
  for (const float s : sum) out += static_cast<double>(s);
  return out;
}

template <class Levels>
inline void write_numbers(const float* x, int n, LineFit fit, uint8_t* q) {
  const float inverse = inverse_of(fit.scale);
  for (int i = 0; i < n; ++i) q[i] = Levels::number(Levels::nearest((x[i] - fit.min) * inverse));
}

// Keeps the candidate whose best fit has the least error.
struct BestScale {
  double gain = 0;
  float scale = 0;
  bool offer(const Sums& at) {
    const double gained = at.qq > 0 ? at.xq * at.xq / at.qq : 0;
    if (!(gained > gain)) return false;
    gain = gained;
    scale = static_cast<float>(at.xq / at.qq);
    return true;
  }
};

}  // namespace search

// The scale of x ≈ scale · level with the least squared error found. REQUIRES n % 8 == 0.
template <class Levels>
inline float fit_scale(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) extreme = std::fabs(x[i]) > std::fabs(extreme) ? x[i] : extreme;
  if (extreme == 0) return 0;
  search::BestScale best;
  for (const float side : {Levels::kLowest, Levels::kHighest}) {
    for (int step = -10; step <= 14; ++step) {  // the extreme number at 0.8 … 1.28 of the last level
      best.offer(search::sums_at<Levels>(x, n, 0, side * (1.0F + 0.02F * static_cast<float>(step)) / extreme));
    }
  }
  for (int i = 0; i < search::kPolish; ++i) {
    if (!best.offer(search::sums_at<Levels>(x, n, 0, search::inverse_of(best.scale)))) break;
  }
  return best.scale;
}

// The line x ≈ scale · level + min, scale ≥ 0 and min ≤ max_min, with the least squared error found.
// REQUIRES levels from 0 on, n % 8 == 0.
template <class Levels>
inline LineFit fit_line(const float* x, int n, float max_min) {
  static_assert(Levels::kLowest == 0);
  float lo = x[0];
  float hi = x[0];
  for (int i = 1; i < n; ++i) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  lo = lo < max_min ? lo : max_min;
  LineFit best{0, lo};
  if (!(hi > lo)) return best;
  double sum = 0;  // of x − lo, in which everything below is computed
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i] - lo);
  double least = INFINITY;
  // The line through the levels chosen by `from`; true when it is the best so far.
  const auto offer = [&](LineFit from) {
    const search::Sums at = search::sums_at<Levels>(x, n, lo, search::inverse_of(from.scale));
    const double determinant = n * at.qq - at.q * at.q;
    if (!(determinant > 0)) return false;
    double m = (at.qq * sum - at.q * at.xq) / determinant;
    m = m < static_cast<double>(max_min - lo) ? m : static_cast<double>(max_min - lo);
    const double s = (at.xq - m * at.q) / at.qq;
    const double error = s * s * at.qq + 2 * s * m * at.q + n * m * m - 2 * (s * at.xq + m * sum);  // less Σxx
    if (!(s > 0) || !(error < least)) return false;
    least = error;
    best = {static_cast<float>(s), lo + static_cast<float>(m)};
    return true;
  };
  for (int step = -10; step <= 6; ++step) {
    offer({(hi - lo) / (Levels::kHighest * (1.0F + 0.02F * static_cast<float>(step))), lo});
  }
  for (int i = 0; i < search::kPolish; ++i) {
    LineFit polished = best;
    double error = search::error_at<Levels>(x, n, polished);
    search::Sums at = search::sums_at<Levels>(x, n, best.min, search::inverse_of(best.scale));
    const double shifted = sum - n * static_cast<double>(best.min - lo);
    const double determinant = n * at.qq - at.q * at.q;
    if (!(determinant > 0)) break;
    const double m = (at.qq * shifted - at.q * at.xq) / determinant;
    polished.min = std::fmin(best.min + static_cast<float>(m), max_min);
    polished.scale = static_cast<float>((at.xq - static_cast<double>(polished.min - best.min) * at.q) / at.qq);
    if (!(polished.scale > 0) || !(search::error_at<Levels>(x, n, polished) < error)) break;
    best = polished;
  }
  return best;
}

// A block of groups whose scales are whole multiples, kLow … kHigh, of one half-precision number.
template <class Levels, int kGroup, int kLow, int kHigh, class Parts>
inline Parts fit_scales_of_groups(const float* x) {
  constexpr int kGroups = 256 / kGroup;
  using Multiple = Whole<kLow, kHigh>;
  float scale[kGroups];
  float extreme = 0;
  for (int g = 0; g < kGroups; ++g) {
    scale[g] = fit_scale<Levels>(x + g * kGroup, kGroup);
    extreme = std::fabs(scale[g]) > std::fabs(extreme) ? scale[g] : extreme;
  }
  Parts best{};
  double least = INFINITY;
  best.d = f32_to_f16(extreme / static_cast<float>(kLow));
  uint16_t half = best.d;
  for (int round = 0; round < 3; ++round) {
    Parts parts{};
    parts.d = half;
    const float d = f16_to_f32(half);
    double error = 0;
    double num = 0;
    double den = 0;
    for (int g = 0; g < kGroups; ++g) {
      const float* at = x + g * kGroup;
      const float middle = Multiple::nearest(scale[g] * search::inverse_of(d));
      double least_here = INFINITY;
      for (float near = middle - 1; near <= middle + 1; near += 1) {
        const float multiple = Multiple::nearest(near);
        const double here = search::error_at<Levels>(at, kGroup, {d * multiple, 0});
        if (!(here < least_here)) continue;
        least_here = here;
        parts.scale[g] = static_cast<int8_t>(multiple);
      }
      const auto multiple = static_cast<float>(parts.scale[g]);
      search::write_numbers<Levels>(at, kGroup, {d * multiple, 0}, parts.q + g * kGroup);
      for (int i = 0; i < kGroup; ++i) {
        const auto a = static_cast<double>(multiple * static_cast<float>(Levels::value(parts.q[g * kGroup + i])));
        num += a * static_cast<double>(at[i]);
        den += a * a;
      }
      error += least_here;
    }
    if (error < least) best = parts;
    if (!(error < least) || !(den > 0)) break;
    least = error;
    half = f32_to_f16(static_cast<float>(num / den));
  }
  return best;
}

// A block of groups whose scales and mins are whole multiples, 0 … kHigh, of two half-precision numbers.
template <class Levels, int kGroup, int kHigh, class Parts>
class LinesOfGroups {
 public:
  explicit LinesOfGroups(const float* x) : x_(x) {
    for (int g = 0; g < kGroups; ++g) lines_[g] = fit_line<Levels>(x + g * kGroup, kGroup, 0);
  }
  Parts fit() {
    float scale = 0;
    float min = 0;
    for (const LineFit& line : lines_) {
      scale = std::fmax(scale, line.scale);
      min = std::fmax(min, -line.min);
    }
    Parts best{};
    best.d = f32_to_f16(scale / kHigh);
    best.dmin = f32_to_f16(min / kHigh);
    double least = INFINITY;
    uint16_t d = best.d;
    uint16_t dmin = best.dmin;
    for (int round = 0; round < 3; ++round) {
      Parts parts{};
      parts.d = d;
      parts.dmin = dmin;
      double error = 0;
      for (int g = 0; g < kGroups; ++g) error += choose(g, parts);
      if (!(error < least)) break;
      least = error;
      best = parts;
      if (!refit(parts, d, dmin)) break;
    }
    return best;
  }

 private:
  static constexpr int kGroups = 256 / kGroup;
  using Multiple = Whole<0, kHigh>;

  // Scale, min and numbers of a group at the block's d and dmin; the squared error.
  double choose(int g, Parts& parts) const {
    const float* at = x_ + g * kGroup;
    const float d = f16_to_f32(parts.d);
    const float dmin = f16_to_f32(parts.dmin);
    const float s0 = Multiple::nearest(lines_[g].scale * search::inverse_of(d));
    const float m0 = Multiple::nearest(-lines_[g].min * search::inverse_of(dmin));
    double least = INFINITY;
    for (int near = 0; near < 9; ++near) {
      const float s = Multiple::nearest(s0 + static_cast<float>(near / 3 - 1));
      const float m = Multiple::nearest(m0 + static_cast<float>(near % 3 - 1));
      const double error = search::error_at<Levels>(at, kGroup, {d * s, -(dmin * m)});
      if (!(error < least)) continue;
      least = error;
      parts.scale[g] = static_cast<int8_t>(s);
      parts.min[g] = static_cast<uint8_t>(m);
    }
    const LineFit line{d * static_cast<float>(parts.scale[g]), -(dmin * static_cast<float>(parts.min[g]))};
    search::write_numbers<Levels>(at, kGroup, line, parts.q + g * kGroup);
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
      const double a = int{parts.scale[i / kGroup]} * Levels::value(parts.q[i]);
      const double b = -int{parts.min[i / kGroup]};
      const auto x = static_cast<double>(x_[i]);
      aa += a * a;
      ab += a * b;
      bb += b * b;
      xa += x * a;
      xb += x * b;
    }
    const double determinant = aa * bb - ab * ab;
    const double new_d = (xa * bb - xb * ab) / determinant;
    const double new_dmin = (xb * aa - xa * ab) / determinant;
    if (!(determinant > 0) || !(new_d > 0) || !(new_dmin > 0)) return false;
    d = f32_to_f16(static_cast<float>(new_d));
    dmin = f32_to_f16(static_cast<float>(new_dmin));
    return true;
  }

  const float* x_;
  LineFit lines_[kGroups];
};

template <class Levels, int kGroup, int kHigh, class Parts>
inline Parts fit_lines_of_groups(const float* x) {
  return LinesOfGroups<Levels, kGroup, kHigh, Parts>(x).fit();
}

}  // namespace quire
