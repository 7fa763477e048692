#include "spec/step_time.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire {
namespace {

constexpr double kForget = 0.97;  // of steps of a number of rounds, when the next of them comes
constexpr double kOutlier = 4;    // spreads beyond which a duration counts as so many
constexpr int64_t kTrusting = 4;  // first observations of a number of rounds, which are taken as they are
constexpr double kLeastSpread = 0.02, kMostSpread = 0.5, kSpreadStep = 0.05;

}  // namespace

size_t StepTime::bucket(int n_streams) {
  const auto n = static_cast<unsigned>(std::max(n_streams, 1));
  return std::min<size_t>(static_cast<size_t>(std::bit_width(n)) - 1, kBuckets - 1);
}

size_t StepTime::rounds_of(const DraftedStep& step) {
  return static_cast<size_t>(std::clamp(step.n_rounds, 0, static_cast<int>(kRounds) - 1));
}

// In units that a usual step has about one of.
StepTime::Vector StepTime::features(const DraftedStep& s) {
  return {1.0, s.n_streams / 16.0, s.n_drafted / 16.0, s.n_rounds / 4.0, static_cast<double>(s.n_keys) / 65536.0};
}

double StepTime::line(const Vector& w, const Vector& x) {
  double out = 0;
  for (size_t i = 0; i < kN; ++i) out += w[i] * x[i];
  return out;
}

double StepTime::predict_ns(const DraftedStep& step) const {
  const Streams& at = of_[bucket(step.n_streams)];
  return line(at.w, features(step)) * at.bend[rounds_of(step)];
}

double StepTime::row_ns(int n_streams) const { return of_[bucket(n_streams)].w[2] / 16; }

void StepTime::observe(const DraftedStep& step, int64_t ns) {
  if (ns <= 0) return;
  Streams& at = of_[bucket(step.n_streams)];
  const size_t rounds = rounds_of(step);
  const double predicted = predict_ns(step);
  double ratio = predicted > 0 ? static_cast<double>(ns) / predicted : 1;
  if (at.n_seen[rounds] >= kTrusting && predicted > 0) {
    const double most = kOutlier * std::max(at.spread, kLeastSpread);
    at.spread += (std::min(std::abs(ratio - 1), kMostSpread) - at.spread) * kSpreadStep;
    ratio = std::clamp(ratio, 1 / (1 + most), 1 + most);
  }
  const double taken = predicted > 0 ? predicted * ratio : static_cast<double>(ns);
  ++at.n_seen[rounds];
  at.by_rounds[rounds].add(features(step), taken, 1 / (taken * taken), kForget);
  fit(at);
}

// The first feature is 1, so the sums hold the means that the line is bent to; between numbers of rounds that were seen
// it is bent as they are.
void StepTime::fit(Streams& at) {
  LineSums<kN> all;
  for (const LineSums<kN>& sums : at.by_rounds) all += sums;
  at.w = fit_line(all);
  size_t before = kRounds;  // the last number that was seen
  for (size_t k = 0; k < kRounds; ++k) {
    if (at.n_seen[k] == 0) continue;
    const double by_line = line(at.w, at.by_rounds[k].xx[0]);
    at.bend[k] = by_line > 0 ? at.by_rounds[k].xt[0] / by_line : 1;
    const size_t from = before == kRounds ? 0 : before + 1;
    for (size_t i = from; i < k; ++i) {
      const double part = before == kRounds ? 1 : static_cast<double>(i - before) / static_cast<double>(k - before);
      at.bend[i] = at.bend[k] * part + (before == kRounds ? 0 : at.bend[before] * (1 - part));
    }
    before = k;
  }
  for (size_t i = before + 1; before < kRounds && i < kRounds; ++i) at.bend[i] = at.bend[before];
}

}  // namespace quire
