#include "spec/controller.h"

#include <algorithm>
#include <new>

namespace quire {
namespace {

constexpr float kPrior = 0.6F;     // that a guess comes true, before any was seen
constexpr float kClassWeight = 4;  // guesses of its own that the mean of all counts as
constexpr float kForgetOwn = 0.95F, kForgetAll = 0.99F;
// What is chosen gives way to what promises so much more for so many steps on end: soon to much, later to little.
constexpr double kMuchBetter = 1.05, kBetter = 1.01;
constexpr int kDwell = 64, kMuchCounts = 8;
constexpr double kExplore = 0.01;  // of the time
constexpr int kBurst = 4;          // steps of a try
// What the first steps with a number of streams do: the line needs both kinds of step and several depths.
constexpr std::array kBegin = {0, 2, 4, 0, 1, 8, 0, 3, 6, 0, 2, 4, 0, 1, 8, 0, 3, 6};

}  // namespace

DepthController::DepthController(int max_depth) : max_depth_(max_depth) {
  all_.tried.fill(kClassWeight);
  all_.came.fill(kClassWeight * kPrior);
}

DepthController::Regime& DepthController::regime(int n_streams) { return regimes_[StepTime::bucket(n_streams)]; }

// That the guess at `place` comes true where all before it did.
float DepthController::rate(const Record* record, int place) const {
  const auto i = static_cast<size_t>(std::min(place, kPlaces - 1));
  const float mean = all_.came[i] / all_.tried[i];
  if (record == nullptr) return mean;
  return (record->came[i] + kClassWeight * mean) / (record->tried[i] + kClassWeight);
}

void DepthController::follow(std::span<const Stream> streams) {
  const auto depth = static_cast<size_t>(max_depth_);
  reach_.assign(streams.size() * depth, 0.0F);
  for (size_t s = 0; s < streams.size(); ++s) {
    const auto at = of_.find(streams[s].seq);
    const Record* record = at == of_.end() ? nullptr : &at->second;
    float reach = 1;
    for (int j = 0; j < std::min(streams[s].most, max_depth_); ++j) {
      reach *= rate(record, j);
      reach_[s * depth + static_cast<size_t>(j)] = reach;
    }
  }
}

// With so many rounds, which guesses pay and what that yields (Dinkelbach's way to the best quotient): a row pays where
// its chance is above its cost at the rate that there is.
DepthController::Choice DepthController::weigh(int rounds) const {
  const double row_ns = time_.row_ns(step_.n_streams);
  const auto depth = static_cast<size_t>(max_depth_);
  DraftedStep step = step_;
  step.n_rounds = rounds;
  step.n_drafted = 0;
  const double n_streams = step.n_streams;
  Choice out{n_streams / std::max(time_.predict_ns(step), 1.0), 0};
  for (int i = 0; i < 3 && rounds > 0; ++i) {
    out.threshold = out.rate * row_ns;
    double gain = 0;
    step.n_drafted = 0;
    for (size_t s = 0; s < reach_.size(); s += depth) {
      for (size_t j = 0; j < static_cast<size_t>(rounds) && reach_[s + j] > out.threshold; ++j) {
        gain += reach_[s + j];
        ++step.n_drafted;
      }
    }
    out.rate = (n_streams + gain) / std::max(time_.predict_ns(step), 1.0);
  }
  return out;
}

void DepthController::set(std::span<Stream> streams, int rounds, double threshold) const {
  const auto depth = static_cast<size_t>(max_depth_);
  for (size_t s = 0; s < streams.size(); ++s) {
    int n = 0;
    const int most = std::min(streams[s].most, rounds);
    while (n < most && reach_[s * depth + static_cast<size_t>(n)] > threshold) ++n;
    streams[s].depth = n;
  }
}

int DepthController::begin_rounds(Regime& regime) const {
  return std::min(kBegin[static_cast<size_t>(regime.n_begun++)], max_depth_);
}

// The neighbours of what is chosen in turn, and nothing at all.
int DepthController::try_rounds(Regime& regime) {
  const int turn = regime.next_try++ % 3;
  const int rounds = regime.rounds;
  if (rounds == 0) return std::min(1 << turn, max_depth_);
  return turn == 0 ? 0 : turn == 1 ? std::min(rounds + 1, max_depth_) : rounds - 1;
}

void DepthController::choose(std::span<Stream> streams, int n_streams, int64_t n_keys) {
  step_ = {n_streams, 0, 0, n_keys};
  exploring_ = false;
  for (Stream& stream : streams) stream.depth = 0;
  if (streams.empty()) return;
  Regime& regime = this->regime(n_streams);
  follow(streams);
  int rounds = 0;
  double threshold = 0;
  if (regime.n_begun < static_cast<int>(kBegin.size())) {
    rounds = begin_rounds(regime);
  } else {
    Choice best = weigh(0), now = best;
    int best_rounds = 0;
    for (int k = 1; k <= max_depth_; ++k) {
      const Choice choice = weigh(k);
      if (k == regime.rounds) now = choice;
      if (choice.rate > best.rate) best = choice, best_rounds = k;
    }
    const double gain = best_rounds == regime.rounds ? 1 : best.rate / now.rate;
    regime.n_better = gain > kMuchBetter ? regime.n_better + kMuchCounts : gain > kBetter ? regime.n_better + 1 : 0;
    if (regime.n_better >= kDwell) {
      regime.rounds = best_rounds;
      regime.n_better = 0;
      now = best;
    }
    rounds = regime.rounds;
    threshold = now.threshold;
    const double step_ns = static_cast<double>(n_streams) / std::max(now.rate, 1e-12);
    if (burst_ == 0 && explored_ns_ + kBurst * step_ns < kExplore * all_ns_) {
      burst_ = kBurst;
      burst_streams_ = n_streams;
      burst_rounds_ = try_rounds(regime);
    }
    if (burst_ > 0 && burst_streams_ == n_streams) {
      rounds = burst_rounds_;
      threshold = 0;
      exploring_ = true;
    }
    burst_ = std::max(burst_ - 1, 0);
  }
  set(streams, rounds, threshold);
  for (const Stream& stream : streams) step_.n_rounds = std::max(step_.n_rounds, stream.depth);
}

void DepthController::verified(SeqId seq, int n_drafted, int n_accepted) {
  Record* own = nullptr;
  try {
    own = &of_[seq];
  } catch (const std::bad_alloc&) {
    // Then it is as young as it was.
  }
  for (int j = 0; j < std::min({n_drafted, n_accepted + 1, kPlaces}); ++j) {
    const auto i = static_cast<size_t>(j);
    const float came = j < n_accepted ? 1.0F : 0.0F;
    if (own != nullptr) {
      own->tried[i] = own->tried[i] * kForgetOwn + 1;
      own->came[i] = own->came[i] * kForgetOwn + came;
    }
    all_.tried[i] = all_.tried[i] * kForgetAll + 1;
    all_.came[i] = all_.came[i] * kForgetAll + came;
  }
}

void DepthController::observe(int n_drafted, int64_t ns, bool learns) {
  if (step_.n_streams == 0) return;
  step_.n_drafted = n_drafted;
  all_ns_ += static_cast<double>(ns);
  if (exploring_) {
    explored_ns_ += static_cast<double>(ns);
    ++n_explored_;
  }
  if (learns) time_.observe(step_, ns);
}

}  // namespace quire
