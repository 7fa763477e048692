#include "spec/controller.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire {
namespace {

constexpr float kPrior = 0.6F;      // that a guess comes true, before any was seen
constexpr float kSidePrior = 0.1F;  // that one beside it does
constexpr float kClassWeight = 4;   // guesses of its own that the mean of all counts as
constexpr float kForgetOwn = 0.95F, kForgetAll = 0.99F, kForgetSide = 0.995F;
// What is chosen gives way to what promises so much more for so many steps on end: soon to much, later to little.
constexpr double kMuchBetter = 1.05, kBetter = 1.01;
constexpr int kDwell = 64, kMuchCounts = 8;
constexpr double kExplore = 0.01;  // of the time
constexpr double kLook = 0.0025;   // of the time, with all that may be beside the first
constexpr int kBurst = 4;          // steps of a try
// What the first steps with a number of streams do: the line needs both kinds of step and several depths.
constexpr std::array kBegin = {0, 2, 4, 0, 1, 8, 0, 3, 6, 0, 2, 4, 0, 1, 8, 0, 3, 6};
constexpr double kGrace = 6;                             // plain steps that the first tries may lose
constexpr int kFewBehind = 16;                           // tokens: as guesses leave them
constexpr double kForgetBehind = 0.9;                    // of what taking in took, when the next comes
constexpr double kTokensPerStep = 1.5, kLeastSteps = 4;  // of a stream, in whose steps taking in has to pay
constexpr double kForgetAnswer = 0.9;
// Guesses have lost for certain where the mean loss, of a plain step, is over kMostLoss and over kSure of its errors.
constexpr double kForgetGain = 0.99, kLeastGains = 30, kMostLoss = 0.02, kSure = 1.5;
constexpr int kFirstHold = 256, kLastHold = 1 << 14;  // steps without guesses then

}  // namespace

DepthController::DepthController(int max_depth, int max_side)
    : max_depth_(max_depth), max_side_(std::min(max_side, kSides)) {
  all_.tried.fill(kClassWeight);
  all_.came.fill(kClassWeight * kPrior);
  all_.asked.fill(kClassWeight);
  all_.made.fill(kClassWeight);
  side_tried_.fill(kClassWeight);
  side_came_.fill(kClassWeight * kSidePrior);
}

DepthController::Regime& DepthController::regime(int n_streams) { return regimes_[StepTime::bucket(n_streams)]; }

// What it takes to take in what a stream has more than a guess leaves behind.
double DepthController::catch_up_ns(const Record& record, int n_tokens) const {
  const int n_behind = n_tokens - record.n_known;
  return n_behind <= kFewBehind || behind_tokens_ <= 0 ? 0 : n_behind * behind_ns_ / behind_tokens_;
}

void DepthController::follow(std::span<const Stream> streams) {
  const auto depth = static_cast<size_t>(max_depth_);
  reach_.assign(streams.size() * depth, 0.0F);
  made_.assign(streams.size() * depth, 0.0F);
  asked_.assign(streams.size(), {});
  for (size_t s = 0; s < streams.size(); ++s) {
    const Stream& stream = streams[s];
    Record& record = of_[stream.seq];
    if (record.n_first == 0) record.n_first = stream.n_tokens;
    record.n_tokens = stream.n_tokens;
    const double n_steps = std::max(std::min<double>(stream.n_left, mean_answer_) / kTokensPerStep, kLeastSteps);
    const double ns = catch_up_ns(record, stream.n_tokens);
    asked_[s] = {&record, ns, ns / n_steps};
    const auto rate = [](float all, float all_of, float own, float own_of) {
      return (own + kClassWeight * all / all_of) / (own_of + kClassWeight);
    };
    float reach = 1, made = 1;
    for (int j = 0; j < std::min(stream.most, max_depth_); ++j) {
      const auto i = static_cast<size_t>(std::min(j, kPlaces - 1));
      const float is_made = rate(all_.made[i], all_.asked[i], record.made[i], record.asked[i]);
      made *= is_made;
      reach *= is_made * rate(all_.came[i], all_.tried[i], record.came[i], record.tried[i]);
      made_[s * depth + static_cast<size_t>(j)] = made;
      reach_[s * depth + static_cast<size_t>(j)] = reach;
    }
  }
}

// A row pays where its chance is above its cost at the rate that there is, a stream where its rows pay for what has to
// be taken in, too.
DepthController::Worth DepthController::worth(size_t stream, int rounds, const Choice& choice) const {
  const float* reach = reach_.data() + stream * static_cast<size_t>(max_depth_);
  const float* made = made_.data() + stream * static_cast<size_t>(max_depth_);
  Worth out;
  while (out.depth < rounds && reach[out.depth] > choice.threshold * made[out.depth]) {
    out.gain += reach[out.depth];
    out.rows += made[out.depth];
    ++out.depth;
  }
  if (out.depth > 0) out.side = n_sides(choice.threshold);
  for (size_t rank = 0; rank < static_cast<size_t>(out.side); ++rank) {
    out.gain += made[0] * side_came_[rank] / side_tried_[rank];
    out.rows += made[0];
  }
  const double cost = choice.threshold * out.rows + choice.rate * asked_[stream].share_ns;
  return out.depth > 0 && out.gain > cost ? out : Worth{};
}

// How many beside the first pay, within the error of what was seen: what is not asked for is hardly seen again.
int DepthController::n_sides(double threshold) const {
  const int most = narrow_ ? 0 : max_side_;
  int n = 0;
  for (; n < most; ++n) {
    const auto i = static_cast<size_t>(n);
    const float chance = side_came_[i] / side_tried_[i];
    if (chance + std::sqrt(chance * (1 - chance) / side_tried_[i]) <= threshold) break;
  }
  return n;
}

// With so many rounds, which guesses pay and what that yields (Dinkelbach's way to the best quotient).
DepthController::Choice DepthController::weigh(int rounds) const {
  const double row_ns = time_.row_ns(step_.n_streams);
  const double n_streams = step_.n_streams;
  Choice out{n_streams / std::max(time_.predict_ns(step_), 1.0), 0};
  for (int i = 0; i < 3 && rounds > 0; ++i) {
    out.threshold = out.rate * row_ns;
    DraftedStep step = step_;
    double gain = 0, more_ns = 0;
    for (size_t s = 0; s < asked_.size(); ++s) {
      const Worth its = worth(s, rounds, out);
      if (its.depth == 0) continue;
      gain += its.gain;
      step.n_drafted += its.rows;
      more_ns += asked_[s].share_ns;
      step.n_rounds = std::max(step.n_rounds, its.depth);
    }
    out.rate = (n_streams + gain) / std::max(time_.predict_ns(step) + more_ns, 1.0);
  }
  return out;
}

// As chosen, now and then with all that may be beside the first, which is a try.
void DepthController::set(std::span<Stream> streams, int rounds, const Choice& choice) {
  looking_ = rounds > 0 && !narrow_ && n_sides(choice.threshold) < max_side_ && looked_ns_ < kLook * all_ns_;
  trying_ = looking_;
  for (size_t s = 0; s < streams.size(); ++s) {
    const Worth its = worth(s, std::min(streams[s].most, rounds), choice);
    streams[s].depth = its.depth;
    streams[s].side = looking_ && its.depth > 0 ? max_side_ : its.side;
  }
}

void DepthController::set_tried(std::span<Stream> streams, int rounds, int side) const {
  for (Stream& stream : streams) {
    const bool is_tried = std::ranges::find(tried_, stream.seq) != tried_.end();
    stream.depth = is_tried ? std::min(stream.most, rounds) : 0;
    stream.side = is_tried ? side : 0;
  }
}

// Who is asked for in a try that may take in no more than room_ns: those that are least behind. Before anything is
// known of taking in, one.
void DepthController::try_some(std::span<const Stream> streams, double room_ns) {
  tried_.clear();
  order_.clear();
  for (size_t s = 0; s < streams.size(); ++s) order_.emplace_back(asked_[s].catch_up_ns, s);
  std::ranges::sort(order_);
  for (const auto& [ns, s] : order_) {
    if (ns > room_ns || (behind_tokens_ < 0 && !tried_.empty())) break;
    room_ns -= ns;
    tried_.push_back(streams[s].seq);
  }
}

// The best for now, and the regime's own choice where that has been better for long enough.
DepthController::Choice DepthController::decide(Regime& regime) {
  Choice best = weigh(0), now = best;
  int best_rounds = 0;
  for (int k = 1; k <= max_depth_; ++k) {
    const Choice choice = weigh(k);
    if (k == regime.rounds) now = choice;
    if (choice.rate > best.rate) best = choice, best_rounds = k;
  }
  if (regime.n_held > 0) {
    --regime.n_held;
    return now;
  }
  const double gain = best_rounds == regime.rounds ? 1 : best.rate / now.rate;
  regime.n_better = gain > kMuchBetter ? regime.n_better + kMuchCounts : gain > kBetter ? regime.n_better + 1 : 0;
  if (regime.n_better < kDwell) return now;
  if (regime.rounds == 0) regime.gained = regime.n_gained = regime.gained_squares = 0;
  regime.rounds = best_rounds;
  regime.n_better = 0;
  return best;
}

// The first steps with about so many streams: the next depth of kBegin, or none while those before it have lost too
// much.
void DepthController::begin(Regime& regime, std::span<Stream> streams) {
  const double may_lose = kExplore * all_ns_ + kGrace * time_.predict_ns(step_) - debt_ns_;
  const int rounds = std::min(kBegin[static_cast<size_t>(regime.n_begun)], max_depth_);
  if (rounds > 0 && may_lose <= 0) return;
  if (rounds > 0) {
    try_some(streams, may_lose);
    if (tried_.empty()) return;
    trying_ = true;
    set_tried(streams, rounds, rounds == 1 ? max_side_ : 0);
  }
  ++regime.n_begun;
}

// Begins to try another depth where there is time for that; whether it is being tried now.
bool DepthController::tries(Regime& regime, std::span<const Stream> streams, const Choice& now) {
  const double room_ns = kExplore * all_ns_ - explored_ns_ - kBurst * time_.predict_ns(step_);
  if (burst_ == 0 && room_ns > 0) {
    burst_ = kBurst;
    burst_streams_ = step_.n_streams;
    // The neighbours of what is chosen in turn, and nothing at all.
    const int turn = regime.next_try++ % 3, rounds = regime.rounds;
    burst_rounds_ = rounds == 0 ? std::min(1 << turn, max_depth_)
                    : turn == 0 ? 0
                    : turn == 1 ? std::min(rounds + 1, max_depth_)
                                : rounds - 1;
    // With as many beside the first as pay; where there are no guesses, all in every other round of tries.
    burst_side_ = rounds > 0 ? n_sides(now.threshold) : narrow_ || regime.next_try / 3 % 2 == 0 ? 0 : max_side_;
    try_some(streams, room_ns);
  }
  const bool out = burst_ > 0 && burst_streams_ == step_.n_streams;
  burst_ = std::max(burst_ - 1, 0);
  return out;
}

void DepthController::choose(std::span<Stream> streams, int n_streams, int64_t n_keys) {
  step_ = {n_streams, 0, 0, n_keys};
  trying_ = exploring_ = looking_ = false;
  step_behind_ = 0;
  for (Stream& stream : streams) stream.depth = stream.side = 0;
  if (streams.empty()) return;
  Regime& regime = this->regime(n_streams);
  follow(streams);
  narrow_ = regime.n_narrow > 0;
  if (regime.n_begun < static_cast<int>(kBegin.size())) {
    begin(regime, streams);
  } else {
    regime.n_narrow = std::max(regime.n_narrow - 1, 0);
    const Choice now = decide(regime);
    trying_ = exploring_ = tries(regime, streams, now);
    if (trying_) {
      set_tried(streams, burst_rounds_, burst_side_);
    } else {
      set(streams, regime.rounds, now);
    }
  }
  for (size_t s = 0; s < streams.size(); ++s) {
    if (streams[s].depth == 0) continue;
    step_.n_rounds = std::max(step_.n_rounds, streams[s].depth);
    const int n_behind = streams[s].n_tokens - std::exchange(asked_[s].record->n_known, streams[s].n_tokens);
    if (n_behind > kFewBehind) step_behind_ += n_behind;
  }
}

void DepthController::asked(SeqId seq, int n_asked, int n_drafted) {
  const auto at = of_.find(seq);
  if (at == of_.end()) return;
  Record& own = at->second;
  for (int j = 0; j < std::min({n_asked, n_drafted + 1, kPlaces}); ++j) {
    const auto i = static_cast<size_t>(j);
    const float made = j < n_drafted ? 1.0F : 0.0F;
    own.asked[i] = own.asked[i] * kForgetOwn + 1;
    own.made[i] = own.made[i] * kForgetOwn + made;
    all_.asked[i] = all_.asked[i] * kForgetAll + 1;
    all_.made[i] = all_.made[i] * kForgetAll + made;
  }
}

// Where a token beside the draft came true, the draft's at that place did not.
void DepthController::verified(const Verified& what) {
  const auto at = of_.find(what.seq);
  Record* own = at == of_.end() ? nullptr : &at->second;
  const auto put = [](float& tried, float& came, bool is_true, float forget) {
    tried = tried * forget + 1;
    came = came * forget + (is_true ? 1.0F : 0.0F);
  };
  const int n_came = what.n_right;
  for (int j = 0; j < std::min({what.n_drafted, n_came + 1, kPlaces}); ++j) {
    const auto i = static_cast<size_t>(j);
    if (own != nullptr) put(own->tried[i], own->came[i], j < n_came, kForgetOwn);
    put(all_.tried[i], all_.came[i], j < n_came, kForgetAll);
  }
  for (int j = 0; j < std::min(what.n_first, max_side_); ++j) {
    const auto i = static_cast<size_t>(j);
    put(side_tried_[i], side_came_[i], j == what.came, kForgetSide);
  }
}

// That those who guessed as chosen lose for certain: then the first token of a guess is alone in its place for a while,
// and where it was, nobody guesses; each longer the next time.
void DepthController::guard(Regime& regime, double gained) const {
  regime.n_gained = regime.n_gained * kForgetGain + 1;
  regime.gained = regime.gained * kForgetGain + gained;
  regime.gained_squares = regime.gained_squares * kForgetGain + gained * gained;
  if (regime.n_gained < kLeastGains) return;
  const double mean = regime.gained / regime.n_gained;
  const double spread =
      std::sqrt(std::max(regime.gained_squares / regime.n_gained - mean * mean, 0.0) / regime.n_gained);
  if (mean > -kMostLoss || mean > -kSure * spread) return;
  const bool narrows = max_side_ > 0 && regime.n_narrow == 0;
  int& hold = narrows ? regime.narrow_hold : regime.hold;
  hold = std::clamp(2 * hold, kFirstHold, kLastHold);
  if (narrows) {
    regime.n_narrow = hold;
  } else {
    regime.n_held = hold;
    regime.rounds = 0;
  }
  regime.n_better = 0;
  regime.gained = regime.n_gained = regime.gained_squares = 0;
}

// Against what the same tokens take without guesses.
void DepthController::charge(const Outcome& outcome) {
  DraftedStep plain = step_;
  plain.n_rounds = 0;
  plain.n_drafted = 0;
  const double plain_ns = time_.predict_ns(plain);
  if (plain_ns <= 0 || step_.n_rounds == 0 || !outcome.alone) return;
  const auto ns = static_cast<double>(outcome.ns);
  if (step_behind_ > 0 || outcome.caught_up) {
    const double more_ns = outcome.caught_up ? std::max(ns - time_.predict_ns(step_), 0.0) : 0;
    behind_ns_ = behind_ns_ * kForgetBehind + more_ns;
    behind_tokens_ = std::max(behind_tokens_, 0.0) * kForgetBehind + step_behind_;
  }
  const double gained_ns = plain_ns * outcome.n_new / step_.n_streams - ns;
  (gained_ns > 0 ? saved_ns_ : lost_ns_) += std::abs(gained_ns);
  if (trying_) {
    debt_ns_ = std::max(debt_ns_ - gained_ns, 0.0);
  } else if (!outcome.caught_up) {
    guard(regime(step_.n_streams), gained_ns / plain_ns);
  }
}

void DepthController::observe(const Outcome& outcome) {
  if (step_.n_streams == 0) return;
  step_.n_drafted = outcome.n_drafted;
  all_ns_ += static_cast<double>(outcome.ns);
  if (exploring_) {
    explored_ns_ += static_cast<double>(outcome.ns);
    ++n_explored_;
  }
  if (looking_) looked_ns_ += static_cast<double>(outcome.ns);
  charge(outcome);
  if (outcome.alone && !outcome.caught_up) time_.observe(step_, outcome.ns);
}

void DepthController::forget(SeqId seq) {
  const auto at = of_.find(seq);
  if (at == of_.end()) return;
  const int n = at->second.n_tokens - at->second.n_first;
  if (n > 0) mean_answer_ += (n - mean_answer_) * (1 - kForgetAnswer);
  of_.erase(at);
}

}  // namespace quire
