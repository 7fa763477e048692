// Encoders' search for scales: of many scales around the one that just covers the numbers, the one with the least
// squared error, each judged at its own best fit. With levels q fixed, the best scale of x ≈ s·q is Σxq / Σqq and its
// error Σxx − (Σxq)² / Σqq; the best line x ≈ s·q + m is the regression line. Choosing levels for a scale and a scale
// for the levels in turn never gets worse (Lloyd 1982), so the best candidate is polished that way. Scale groups whose
// scales are quantised too try the neighbours of each rounded scale, then refit the common one over all of them. Every
// sum is weighted where numbers differ in importance. How many candidates are tried is an Effort: the quick one tries
// few and no neighbours, in a quarter of the time or less and with a little more error (docs/io.md has both).
// Candidates stand side by side, as many as a register of an instruction set holds (Numbers::kLanes), each lane by
// itself: the bits are the same. This is compiled for several sets: what they share is inlined, the rest has the lanes
// in its type. Pure functions, any thread. Numbers that are not finite give some block, never undefined behaviour.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "quant/lanes.h"
#include "quant/levels.h"

namespace quire {

struct LineFit {
  float scale = 0, min = 0;  // x ≈ scale · level + min
};

namespace search {

// Levels that ascend; of a table's, the nearest is found by counting the middles that v lies above, which vectorises.
template <class L>
struct Ascending : L {
  static constexpr bool kTable = requires { L::extreme(1); };
  static QR_INLINE constexpr float middle(int i) {
    return 0.5F * static_cast<float>(L::value(static_cast<uint8_t>(i)) + L::value(static_cast<uint8_t>(i + 1)));
  }
  static QR_INLINE constexpr float step(int i) {
    return static_cast<float>(L::value(static_cast<uint8_t>(i + 1)) - L::value(static_cast<uint8_t>(i)));
  }

  static QR_INLINE float nearest(float v) {
    if constexpr (!kTable) return L::nearest(v);
    float level = L::kLowest;
    for (int i = 0; i < 15; ++i) level += v > middle(i) ? step(i) : 0.0F;
    return level;
  }
  template <class V>
    requires(sizeof(V) > sizeof(float))
  static QR_INLINE V nearest(V v) {
    if constexpr (kTable) {
      V level = V{} + L::kLowest;
      for (int i = 0; i < 15; ++i) level += v > middle(i) ? V{} + step(i) : V{};
      return level;
    } else {
      const V inside = smaller(larger(v, V{} + L::kLowest), V{} + L::kHighest);
      return inside + 12582912.0F - 12582912.0F;  // as Whole::nearest
    }
  }
  static QR_INLINE uint8_t number(float level) {
    if constexpr (!kTable) return L::number(level);
    int above = 0;
    for (int i = 0; i < 15; ++i) above += level > middle(i) ? 1 : 0;
    return static_cast<uint8_t>(above);
  }
};

// Of each lane the nearest level, one by one where a table's levels do not ascend (MXFP4's).
template <class Levels>
QR_INLINE Four nearest_four(Four v) {
  if constexpr (requires(Four four) { four = Levels::nearest(four); }) {
    return Levels::nearest(v);
  } else {
    return Four{Levels::nearest(v[0]), Levels::nearest(v[1]), Levels::nearest(v[2]), Levels::nearest(v[3])};
  }
}

// Numbers and what the square of each one's error counts; how many candidates are tried side by side.
template <bool kWeighted, int kLanesOf = 4>
struct Numbers {
  static constexpr int kLanes = kLanesOf;
  static constexpr bool kHasWeights = kWeighted;
  const float* x;
  const float* weights;  // unused unless kWeighted
  int n;

  QR_INLINE float weight(int i) const {
    if constexpr (kWeighted) return weights[i];
    return 1.0F;
  }
  QR_INLINE Four four(int i) const { return load_four(x + i); }
  // `v` of the four numbers from i on, as much as they weigh.
  QR_INLINE Four weigh(int i, Four v) const {
    if constexpr (kWeighted) return load_four(weights + i) * v;
    return v;
  }
  double total_weight() const {
    if constexpr (!kWeighted) return n;
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += static_cast<double>(weight(i));
    return sum;
  }
  Numbers part(int from, int size) const { return {x + from, kWeighted ? weights + from : nullptr, size}; }
};

// How far a search goes.
struct Effort {
  float scale_step, line_step;  // between candidates, as shares of the scale that covers the numbers
  int scale_from, scale_to;     // fit_scale's candidates: from … to steps
  int line_from, line_to;       // fit_line's
  int polish;                   // rounds
  int near;                     // neighbours of a rounded scale on either side
  int rounds;                   // of choosing scale groups' scales and refitting the block's
};
inline constexpr Effort kThorough{0.02F, 0.02F, -10, 14, -10, 6, 4, 1, 3};
inline constexpr Effort kQuick{0.09F, 0.07F, -1, 1, -1, 0, 1, 0, 1};

struct Sums {
  double q = 0, qq = 0, xq = 0;
};

// The lanes of two fours in their order.
QR_INLINE double sum_of(const Four (&v)[2]) {
  double out = 0;
  for (const Four& four : v) {
    for (int l = 0; l < 4; ++l) out += static_cast<double>(four[l]);
  }
  return out;
}

// Σ over the levels nearest to (x − offset) · inverse, of x − offset. Eight partial sums, number i in that of i mod 8.
template <class Levels, class In>
inline Sums sums_at(const In& in, float offset, float inverse) {
  Four q[2] = {};
  Four qq[2] = {};
  Four xq[2] = {};
  for (int i = 0; i < in.n; i += 8) {
    for (int h = 0; h < 2; ++h) {
      const Four v = in.four(i + 4 * h) - offset;
      const Four level = Levels::nearest(v * inverse);
      const Four weighted = in.weigh(i + 4 * h, level);
      q[h] += weighted;
      qq[h] += level * weighted;
      xq[h] += v * weighted;
    }
  }
  return {sum_of(q), sum_of(qq), sum_of(xq)};
}

QR_INLINE float inverse_of(float scale) { return scale != 0 ? 1.0F / scale : 0.0F; }

// Σ (x − (scale · level + min))² with the nearest levels.
template <class Levels, class In>
inline double error_at(const In& in, LineFit fit) {
  const float inverse = inverse_of(fit.scale);
  Four sum[2] = {};
  for (int i = 0; i < in.n; i += 8) {
    for (int h = 0; h < 2; ++h) {
      const Four v = in.four(i + 4 * h) - fit.min;
      const Four error = v - fit.scale * nearest_four<Levels>(v * inverse);
      sum[h] += in.weigh(i + 4 * h, error * error);
    }
  }
  return sum_of(sum);
}

// Candidates side by side, a lane each, so that nothing is summed across lanes.
template <class In>
struct SumsOfLanes {
  using Doubles = typename LanesOf<In::kLanes>::Doubles;
  Doubles q, qq, xq;
};
template <class Levels, class In, class V>
QR_INLINE SumsOfLanes<In> sums_of_lanes(const In& in, float offset, V inverse) {
  V q = {};
  V qq = {};
  V xq = {};
  for (int i = 0; i < in.n; ++i) {
    const float v = in.x[i] - offset;
    const V level = Levels::nearest(v * inverse);
    const V weighted = in.weight(i) * level;
    q += weighted;
    qq += level * weighted;
    xq += v * weighted;
  }
  using Doubles = typename SumsOfLanes<In>::Doubles;
  return {__builtin_convertvector(q, Doubles), __builtin_convertvector(qq, Doubles),
          __builtin_convertvector(xq, Doubles)};
}

template <class Levels, class In, class V>
QR_INLINE V errors_of_lanes(const In& in, V scale, V min) {
  const V inverse = scale != 0.0F ? 1.0F / scale : V{};
  V sum = {};
  for (int i = 0; i < in.n; ++i) {
    const V v = in.x[i] - min;
    const V error = v - scale * Levels::nearest(v * inverse);
    sum += in.weight(i) * (error * error);
  }
  return sum;
}

template <class Levels>
QR_INLINE void write_numbers(const float* x, int n, LineFit fit, uint8_t* q) {
  const float inverse = inverse_of(fit.scale);
  for (int i = 0; i < n; ++i) q[i] = Levels::number(Levels::nearest((x[i] - fit.min) * inverse));
}

// Keeps the candidate whose best fit has the least error.
struct BestScale {
  double loss = 0;  // Σ(x − scale · level)² − Σx²
  float scale = 0;
  QR_INLINE bool offer(const Sums& at) {
    const double lost = at.qq > 0 ? -(at.xq * at.xq / at.qq) : 0;
    if (!(lost < loss)) return false;
    loss = lost;
    scale = static_cast<float>(at.xq / at.qq);
    return true;
  }
  template <class In>
  QR_INLINE void offer(const SumsOfLanes<In>& at, int n) {  // n of the lanes, or all
    const auto lost = at.qq > 0.0 ? -(at.xq * at.xq / at.qq) : at.qq - at.qq;
    const int lane = least_of(lost, n < In::kLanes ? n : In::kLanes, loss);
    if (lane >= 0) scale = static_cast<float>(at.xq[lane] / at.qq[lane]);
  }
};

// The scale of x ≈ scale · level with the least squared error found. REQUIRES n % 8 == 0.
template <class Levels, class In>
inline float fit_scale(const In& in, const Effort& effort) {
  float extreme = 0;
  for (int i = 0; i < in.n; ++i) extreme = std::fabs(in.x[i]) > std::fabs(extreme) ? in.x[i] : extreme;
  if (extreme == 0) return 0;
  BestScale best;
  for (const float side : {Levels::kLowest, Levels::kHighest}) {
    for (int step = effort.scale_from; step <= effort.scale_to; step += In::kLanes) {
      const auto steps = static_cast<float>(step) + LanesOf<In::kLanes>::kSteps;
      const auto sums = sums_of_lanes<Levels>(in, 0, side * (1.0F + effort.scale_step * steps) / extreme);
      best.offer(sums, effort.scale_to - step + 1);
    }
  }
  for (int i = 0; i < effort.polish; ++i) {
    if (!best.offer(sums_at<Levels>(in, 0, inverse_of(best.scale)))) break;
  }
  return best.scale;
}

// The scale with the levels of `scale` at which the error has no part along the numbers. The best fit shrinks them all
// by the share that its error has, which adds up where an input resembles the row; undoing it costs the square of that
// share.
template <class Levels, class In>
inline float unshrunk(const In& in, float scale) {
  const Sums at = sums_at<Levels>(in, 0, inverse_of(scale));
  double xx = 0;
  for (int i = 0; i < in.n; ++i) xx += static_cast<double>(in.weight(i) * (in.x[i] * in.x[i]));
  const double out = xx / at.xq;
  return std::isfinite(out) ? static_cast<float>(out) : scale;
}

// The line x ≈ scale · level + min, scale ≥ 0 and min ≤ max_min, with the least squared error found.
// REQUIRES levels from 0 on, n % 8 == 0.
template <class Levels, class In>
inline LineFit fit_line(const In& in, float max_min, const Effort& effort) {
  static_assert(Levels::kLowest == 0);
  float lo = in.x[0];
  float hi = in.x[0];
  for (int i = 1; i < in.n; ++i) {
    lo = in.x[i] < lo ? in.x[i] : lo;
    hi = in.x[i] > hi ? in.x[i] : hi;
  }
  lo = lo < max_min ? lo : max_min;
  LineFit best{0, lo};
  if (!(hi > lo)) return best;
  const double n = in.total_weight();
  double sum = 0;  // of x − lo, in which everything below is computed
  for (int i = 0; i < in.n; ++i) sum += static_cast<double>(in.weight(i) * (in.x[i] - lo));
  double least = INFINITY;
  // The line through the levels whose sums these are, if it is the best so far.
  const auto offer = [&](const SumsOfLanes<In>& at, int n_lanes) {
    using Doubles = typename LanesOf<In::kLanes>::Doubles;
    const double highest = static_cast<double>(max_min - lo);
    const Doubles determinant = n * at.qq - at.q * at.q;
    Doubles m = (at.qq * sum - at.q * at.xq) / determinant;
    m = m < highest ? m : Doubles{} + highest;
    const Doubles s = (at.xq - m * at.q) / at.qq;
    Doubles error = s * s * at.qq + 2.0 * s * m * at.q + n * m * m - 2.0 * (s * at.xq + m * sum);  // less Σxx
    error = determinant > 0.0 ? error : Doubles{} + INFINITY;
    error = s > 0.0 ? error : Doubles{} + INFINITY;
    const int lane = least_of(error, n_lanes < In::kLanes ? n_lanes : In::kLanes, least);
    if (lane >= 0) best = {static_cast<float>(s[lane]), lo + static_cast<float>(m[lane])};
  };
  for (int step = effort.line_from; step <= effort.line_to; step += In::kLanes) {
    const auto steps = static_cast<float>(step) + LanesOf<In::kLanes>::kSteps;
    const auto sums = sums_of_lanes<Levels>(in, lo, Levels::kHighest * (1.0F + effort.line_step * steps) / (hi - lo));
    offer(sums, effort.line_to - step + 1);
  }
  double error = effort.polish > 0 ? error_at<Levels>(in, best) : 0;
  for (int i = 0; i < effort.polish; ++i) {
    LineFit polished = best;
    const Sums at = sums_at<Levels>(in, best.min, inverse_of(best.scale));
    const double shifted = sum - n * static_cast<double>(best.min - lo);
    const double determinant = n * at.qq - at.q * at.q;
    if (!(determinant > 0)) break;
    const double m = (at.qq * shifted - at.q * at.xq) / determinant;
    polished.min = std::fmin(best.min + static_cast<float>(m), max_min);
    polished.scale = static_cast<float>((at.xq - static_cast<double>(polished.min - best.min) * at.q) / at.qq);
    if (!(polished.scale > 0)) break;
    const double less = error_at<Levels>(in, polished);
    if (!(less < error)) break;
    error = less;
    best = polished;
  }
  return best;
}

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

}  // namespace search

}  // namespace quire
