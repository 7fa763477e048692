// The controller where answers come and go, on machines whose costs were measured or written down: who guesses takes in
// every new prompt first, steps are disturbed, and all of it is held against no guesses at all. What a schedule costs
// is counted without the noise that the controller sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "base/sanitized.h"
#include "spec/controller.h"

namespace quire {
namespace {

constexpr int kMost = 8, kPrompt = 50, kAnswer = 128;

struct Point {
  double at, us;
};

struct Machine {
  std::string name;
  std::vector<Point> rows;   // a step of so many rows
  std::vector<Point> round;  // a round of a draft model over so many streams
  double behind_us;          // a token that a draft model takes in
};

const Machine kMachines[] = {
    // The bundled model and its draft on two cores: fitted to steps of `quire bench --draft` and `--spec ngram`.
    {"computes",
     {{1, 200}, {2, 255}, {4, 400}, {6, 571}, {8, 650}, {16, 1219}, {20, 1600}, {32, 2450}, {64, 4400}, {1200, 84000}},
     {{1, 90}, {4, 130}, {16, 420}, {64, 1300}, {128, 2600}},
     25},
    // A model that is read from memory: a few rows cost what one does.
    {"reads",
     {{1, 30e3}, {4, 31e3}, {8, 33e3}, {16, 40e3}, {32, 60e3}, {64, 110e3}, {128, 210e3}, {1200, 1960e3}},
     {{1, 3000}, {16, 4000}, {64, 11e3}, {128, 21e3}},
     150},
    // A small model and its head on two cores, where a row more is a third of a step.
    {"rows cost",
     {{1, 9e3}, {2, 11.7e3}, {4, 17.5e3}, {8, 29e3}, {16, 52e3}, {32, 98e3}, {64, 190e3}, {1200, 3500e3}},
     {{1, 500}, {16, 2500}, {64, 9000}},
     0},
};

struct Drafter {
  std::string name;
  double has, lo, hi;  // how often it has a guess; of a stream's guesses those that come true, drawn between lo and hi
  bool is_model;
  std::vector<double> beside{};  // where the first guess is wrong, how often each beside it is right
};
const Drafter kDrafters[] = {{"draft model", 1, 0.45, 0.75, true},
                             {"good draft model", 1, 0.8, 0.9, true},
                             {"n-gram", 0.1, 0.8, 0.98, false},
                             {"adversarial", 1, 0, 0, true}};
// Heads that may guess several tokens for the first place.
const Drafter kHeads[] = {{"weak head", 1, 0.2, 0.35, false, {0.13, 0.07, 0.04}},
                          {"good head", 1, 0.5, 0.7, false, {0.35, 0.15, 0.1}},
                          {"useless head", 1, 0, 0.02, false, {0.01, 0.01, 0.01}}};

enum class Noise { quiet, spikes };

double along(const std::vector<Point>& line, double at) {
  size_t i = 1;
  while (i + 1 < line.size() && line[i].at < at) ++i;
  const double part = (at - line[i - 1].at) / (line[i].at - line[i - 1].at);
  return line[i - 1].us + part * (line[i].us - line[i - 1].us);
}

struct Case {
  const Machine& machine;
  const Drafter& drafter;
  int n_streams;
  Noise noise;
  uint64_t seed;
  int side = 0;  // tokens beside the first of a guess, at most
};

struct Result {
  double tok_s = 0;
  double saved_share = 0;  // of the time, as the controller counts it
};

class World {
 public:
  // `fixed` below 0: the controller's depths.
  World(const Case& it, int fixed)
      : it_(it),
        fixed_(fixed),
        rng_(it.seed),
        noise_(it.seed + 77),
        arrivals_(it.seed + 7),
        controller_(kMost, it.side) {}

  // So many answers, and another one in the place of each that has ended.
  Result run(int n_answers) {
    n_answers_ = n_answers;
    for (int i = 0; i < it_.n_streams; ++i) answers_.push_back(arrival());
    while (!answers_.empty()) step();
    const double saved = static_cast<double>(controller_.saved_ns() - controller_.lost_ns()) / 1e3;
    return {static_cast<double>(n_tokens_) / us_ * 1e6, saved / us_};
  }

 private:
  struct Answer {
    SeqId id;
    int n_tokens, n_left, n_known;
    double chance;
  };

  Answer arrival() {
    us_ += kPrompt * it_.machine.rows.back().us / it_.machine.rows.back().at;
    const int n = kAnswer - static_cast<int>(arrivals_.unit() * kAnswer / 2);
    const double chance = it_.drafter.lo + (it_.drafter.hi - it_.drafter.lo) * arrivals_.unit();
    return {++n_begun_, kPrompt, n, 0, chance};
  }

  void step() {
    std::vector<DepthController::Stream> streams;
    std::vector<size_t> who;
    int64_t n_keys = 0;
    for (size_t i = 0; i < answers_.size(); ++i) {
      const Answer& a = answers_[i];
      n_keys += a.n_tokens;
      const int most = rng_.unit() < it_.drafter.has ? std::min(kMost, a.n_left - 1) : 0;
      if (most < 1) continue;
      streams.push_back({a.id, most, std::clamp(fixed_, 0, most), a.n_tokens, a.n_left, fixed_ > 0 ? it_.side : 0});
      who.push_back(i);
    }
    const auto n_streams = static_cast<int>(answers_.size());
    if (fixed_ < 0) controller_.choose(streams, n_streams, n_keys);
    std::vector<int> n_new(answers_.size(), 1);
    int n_drafted = 0, n_rounds = 0, n_asked = 0, n_behind = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].depth == 0) continue;
      Answer& a = answers_[who[i]];
      n_new[who[i]] += guess(a, streams[i], n_behind);
      n_drafted += streams[i].depth + streams[i].side;
      n_rounds = std::max(n_rounds, streams[i].depth);
      ++n_asked;
    }
    double us = along(it_.machine.rows, n_streams + n_drafted);
    if (it_.drafter.is_model && n_asked > 0) us += n_rounds * along(it_.machine.round, n_asked);
    us += n_behind * it_.machine.behind_us;
    us_ += us;
    int n_all = 0;
    for (size_t i = 0; i < answers_.size(); ++i) n_all += n_new[i];
    n_tokens_ += n_all;
    if (fixed_ < 0)
      controller_.observe({n_drafted, n_all, static_cast<int64_t>(disturbed(us) * 1e3), true, n_behind > 4 * n_asked});
    write(n_new);
  }

  // What comes true of its guesses; a model takes in first what the answer wrote meanwhile.
  int guess(Answer& a, const DepthController::Stream& asked, int& n_behind) {
    const int depth = asked.depth;
    int n_right = 0, came = -1;
    while (n_right < depth && rng_.unit() < a.chance) ++n_right;
    if (n_right == 0 && asked.side > 0) {
      double at = rng_.unit();
      for (int i = 0; i < asked.side && came < 0; ++i) {
        if (at < it_.drafter.beside[static_cast<size_t>(i)]) came = i;
        at -= it_.drafter.beside[static_cast<size_t>(i)];
        if (at < 0) break;
      }
    }
    const int n_accepted = n_right + (came >= 0 ? 1 : 0);
    if (it_.drafter.is_model) n_behind += a.n_tokens - a.n_known - 1;
    a.n_known = a.n_tokens + std::min(n_accepted, depth - 1);
    if (fixed_ < 0) {
      controller_.asked(a.id, depth, depth);
      controller_.verified({.seq = a.id,
                            .n_drafted = depth,
                            .n_accepted = n_accepted,
                            .n_right = n_right,
                            .n_side = asked.side,
                            .n_first = asked.side,
                            .came = came});
    }
    return n_accepted;
  }

  double disturbed(double us) {
    us *= 0.95 + 0.1 * noise_.unit();
    const bool hit = it_.noise == Noise::spikes && noise_.unit() < 0.02 * us / 1e3;
    return hit ? us + 2000 + 30e3 * noise_.unit() * noise_.unit() : us;
  }

  void write(const std::vector<int>& n_new) {
    std::vector<Answer> left;
    for (size_t i = 0; i < answers_.size(); ++i) {
      Answer a = answers_[i];
      a.n_tokens += n_new[i];
      a.n_left -= n_new[i];
      if (a.n_left > 0) {
        left.push_back(a);
        continue;
      }
      if (fixed_ < 0) controller_.forget(a.id);
      if (static_cast<int>(n_begun_) < n_answers_) left.push_back(arrival());
    }
    answers_ = std::move(left);
  }

  const Case it_;
  const int fixed_;
  Rng rng_, noise_, arrivals_;
  DepthController controller_;
  std::vector<Answer> answers_;
  SeqId n_begun_ = 0;
  int n_answers_ = 0;
  int64_t n_tokens_ = 0;
  double us_ = 0;
};

// From the first step on, with all that was tried and learned.
TEST(DepthControllerFlow, IsNeverSlowerThanNoGuesses) {
  for (const Machine& machine : kMachines) {
    for (const Drafter& drafter : kDrafters) {
      for (const int n_streams : {1, 4, 16, 64, 128}) {
        for (const Noise noise : {Noise::quiet, Noise::spikes}) {
          double sum = 0;
          const int n_seeds = kSanitized ? 1 : 4;
          for (int seed = 1; seed <= n_seeds; ++seed) {
            const Case it{machine, drafter, n_streams, noise, static_cast<uint64_t>(seed)};
            const int n_answers = std::max(12 * n_streams, 24);
            const double gain = World(it, -1).run(n_answers).tok_s / World(it, 0).run(n_answers).tok_s;
            EXPECT_GE(gain, 0.97) << machine.name << ", " << drafter.name << ", " << n_streams << ", seed " << seed
                                  << (noise == Noise::spikes ? ", disturbed" : "");
            sum += gain;
          }
          const std::string where = machine.name + ", " + drafter.name + ", " + std::to_string(n_streams) +
                                    (noise == Noise::spikes ? ", disturbed" : "");
          EXPECT_GE(sum / n_seeds, 0.98) << where;
          RecordProperty(where, std::to_string(sum / n_seeds));  // for who wants the table: --gtest_output=json:FILE
        }
      }
    }
  }
}

// That others may be guessed beside the first costs next to nothing where that does not pay, and brings what it can
// where it does.
TEST(DepthControllerFlow, WidthIsTakenWhereItPays) {
  for (const Machine& machine : kMachines) {
    for (const Drafter& head : kHeads) {
      for (const int n_streams : {1, 4, 16}) {
        double wide = 0, narrow = 0;
        const int n_seeds = kSanitized ? 1 : 4;
        for (int seed = 1; seed <= n_seeds; ++seed) {
          Case it{machine, head, n_streams, Noise::spikes, static_cast<uint64_t>(seed), 3};
          const int n_answers = std::max(20 * n_streams, 40);
          const double off = World(it, 0).run(n_answers).tok_s;
          wide += World(it, -1).run(n_answers).tok_s / off;
          it.side = 0;
          narrow += World(it, -1).run(n_answers).tok_s / off;
        }
        const std::string where = machine.name + ", " + head.name + ", " + std::to_string(n_streams);
        const double least = kSanitized ? 0.94 : 0.98;  // of one seed, or in the mean of several
        EXPECT_GE(wide / n_seeds, least) << where;
        EXPECT_GE(wide, least * narrow) << where;
        if (where == "reads, weak head, 1") {
          EXPECT_GE(wide, (kSanitized ? 1.0 : 1.04) * narrow) << where;
        }
      }
    }
  }
}

// Where guessing pays most of what a fixed depth brings is there, too.
TEST(DepthControllerFlow, GainsWhereGuessesPay) {
  for (const auto& [drafter, n_streams] : {std::pair(0, 1), std::pair(0, 4), std::pair(1, 1), std::pair(1, 4)}) {
    const Case it{kMachines[1], kDrafters[drafter], n_streams, Noise::spikes, 1};
    const int n_answers = 40 * n_streams;
    double best = 0;
    for (int depth = 1; depth <= kMost; ++depth) best = std::max(best, World(it, depth).run(n_answers).tok_s);
    EXPECT_GE(World(it, -1).run(n_answers).tok_s, 0.93 * best) << kDrafters[drafter].name << ", " << n_streams;
  }
}

// What it says to have saved is what a run without guesses took more, within a tenth.
TEST(DepthControllerFlow, CountsWhatItSaves) {
  for (const int drafter : {0, 1}) {
    const Case it{kMachines[1], kDrafters[drafter], 1, Noise::quiet, 3};
    const Result with = World(it, -1).run(60), without = World(it, 0).run(60);
    const double saved = with.tok_s / without.tok_s - 1;  // of the time with guesses
    ASSERT_GT(saved, 0.3);
    EXPECT_NEAR(with.saved_share, saved, 0.1 * saved) << kDrafters[drafter].name;
  }
}

}  // namespace
}  // namespace quire
