// Encoders' search for scales: of many scales around the one that just covers the numbers, the one with the least
// squared error, each judged at its own best fit. With levels q fixed, the best scale of x ≈ s·q is Σxq / Σqq and its
// error Σxx − (Σxq)² / Σqq; the best line x ≈ s·q + m is the regression line. Choosing levels for a scale and a scale
// for the levels in turn never gets worse (Lloyd 1982), so the best candidate is polished that way. A lone scale is
// looked for in two rounds: some candidates far apart, then as many close to the best of them. Every sum is weighted
// where numbers differ in importance. How many candidates are tried is an Effort: the quick one tries few and no
// neighbours, in half the time or less and with a little more error (docs/io.md has both).
// Candidates stand side by side, as many as a register of an instruction set holds (Numbers::kLanes), each lane by
// itself: the bits are the same. This is compiled for several sets: what they share is inlined, the rest has the lanes
// in its type. Pure functions, any thread. Numbers that are not finite give some block, never undefined behaviour.
#pragma once
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
  // `v` of the numbers from i on, as much as they weigh.
  template <class V>
  QR_INLINE V weigh(int i, V v) const {
    if constexpr (kWeighted) return load_lanes<V>(weights + i) * v;
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

// Candidates: from … to steps of so many shares of the scale that they lie around.
struct Candidates {
  float step;
  int from, to;
};

// How far a search goes.
struct Effort {
  Candidates scale;               // fit_scale's around the scale that covers the numbers, on either side of zero
  Candidates scale_many;          // the same of more than 16 levels, whose errors change with smaller steps
  Candidates scale_near;          // around the best of those
  Candidates line;                // fit_line's around the one that covers the numbers
  int polish_scale, polish_line;  // rounds
  int near;                       // neighbours of a rounded scale on either side
  int rounds;                     // of choosing scale groups' scales and refitting the block's
};
inline constexpr int kMostCandidates = 32;  // of fit_scale's, both sides
inline constexpr Effort kThorough{{0.06F, -3, 4}, {0.03F, -7, 8}, {0.0125F, -4, 3}, {0.02F, -10, 5}, 1, 2, 1, 3};
inline constexpr Effort kQuick{{0.09F, -1, 1}, {0.09F, -1, 1}, {0, 0, -1}, {0.07F, -1, 0}, 1, 1, 0, 1};

struct Sums {
  double q = 0, qq = 0, xq = 0;
};

// The lanes of eight partial sums in their order.
template <class V>
QR_INLINE double sum_of(const V* v) {
  constexpr int kLanes = sizeof(V) / sizeof(float);
  double out = 0;
  for (int i = 0; i < 8; ++i) out += static_cast<double>(v[i / kLanes][i % kLanes]);
  return out;
}

// Σ over the levels nearest to (x − offset) · inverse, of x − offset. Eight partial sums, number i in that of i mod 8.
template <class Levels, class In>
inline Sums sums_at(const In& in, float offset, float inverse) {
  constexpr int kLanes = In::kLanes < 8 ? In::kLanes : 8;
  using V = typename LanesOf<kLanes>::Type;
  V q[8 / kLanes] = {};
  V qq[8 / kLanes] = {};
  V xq[8 / kLanes] = {};
  for (int i = 0; i < in.n; i += 8) {
    for (int h = 0; h < 8 / kLanes; ++h) {
      const V v = load_lanes<V>(in.x + i + kLanes * h) - offset;
      const V level = Levels::nearest(v * inverse);
      const V weighted = in.weigh(i + kLanes * h, level);
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
      const Four v = load_lanes<Four>(in.x + i + 4 * h) - fit.min;
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
  const Candidates& wide = Levels::kMax > 15 && !Levels::kTable ? effort.scale_many : effort.scale;
  float inverses[kMostCandidates] = {};
  int n = 0;
  for (const float side : {Levels::kLowest, Levels::kHighest}) {
    for (int i = wide.from; i <= wide.to; ++i)
      inverses[n++] = side * (1.0F + wide.step * static_cast<float>(i)) / extreme;
  }
  BestScale best;
  for (int i = 0; i < n; i += In::kLanes) {
    const auto some = load_lanes<typename LanesOf<In::kLanes>::Type>(inverses + i);
    best.offer(sums_of_lanes<Levels>(in, 0, some), n - i);
  }
  const Candidates& near = effort.scale_near;
  const float around = inverse_of(best.scale);
  for (int i = near.from; i <= near.to; i += In::kLanes) {
    const auto steps = static_cast<float>(i) + LanesOf<In::kLanes>::kSteps;
    best.offer(sums_of_lanes<Levels>(in, 0, around * (1.0F + near.step * steps)), near.to - i + 1);
  }
  for (int i = 0; i < effort.polish_scale; ++i) {
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
  const Candidates& lines = effort.line;
  for (int i = lines.from; i <= lines.to; i += In::kLanes) {
    const auto steps = static_cast<float>(i) + LanesOf<In::kLanes>::kSteps;
    offer(sums_of_lanes<Levels>(in, lo, Levels::kHighest * (1.0F + lines.step * steps) / (hi - lo)), lines.to - i + 1);
  }
  double error = effort.polish_line > 0 ? error_at<Levels>(in, best) : 0;
  for (int i = 0; i < effort.polish_line; ++i) {
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

}  // namespace search

}  // namespace quire
