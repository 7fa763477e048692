// Policies before workers that are models, over dialogues that are made up: what each is for can be seen, and nothing
// is lost or counted twice when a worker dies.
#include <gtest/gtest.h>

#include "route/fleet_model_testing.h"

namespace quire {
namespace {

// Dialogues of turns, each a block longer than the last one, which come in between each other.
std::vector<ModelRequest> dialogues(int n_dialogues, int n_turns, int64_t apart_ns) {
  std::vector<ModelRequest> out;
  for (int turn = 0; turn < n_turns; ++turn) {
    for (int d = 0; d < n_dialogues; ++d) {
      ModelRequest r;
      r.arrival_ns = static_cast<int64_t>(out.size()) * apart_ns;
      for (int b = 0; b <= turn + 2; ++b)
        r.blocks.push_back(b == 0 ? 1 : random_bits(static_cast<uint64_t>(d), static_cast<uint64_t>(b)));
      r.prompt_tokens = std::ssize(r.blocks) * kModelBlock + 7;
      r.answer_tokens = 20 + d % 5;
      out.push_back(std::move(r));
    }
  }
  return out;
}

FleetResult run(std::string_view policy, const ModelFleet& how, const std::vector<ModelRequest>& trace) {
  return FleetModel(policy, how, trace).run();
}

constexpr int64_t kApartNs = 60'000'000;

TEST(FleetModel, OneWorkersCacheIsWhatItsPromptsHaveInCommon) {
  ModelFleet how;
  how.n_workers = 1;
  const auto trace = dialogues(2, 3, 10'000'000'000);
  const FleetResult one = run("round_robin", how, trace);
  int64_t cached = 0, all = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    all += trace[i].prompt_tokens;
    cached += i == 0 ? 0 : i == 1 ? kModelBlock : (std::ssize(trace[i].blocks) - (i < 2 ? 0 : 1)) * kModelBlock;
  }
  EXPECT_DOUBLE_EQ(one.cached, static_cast<double>(cached) / static_cast<double>(all));
  EXPECT_EQ(one.n_done, 6);
  EXPECT_EQ(one.left_tokens, 0);
  // The slowest but one is the second: two blocks and seven tokens, in three steps of 512 rows or less.
  EXPECT_DOUBLE_EQ(one.first_p99_ms, (3 * 8'000'000 + (2 * kModelBlock + 7) * 60'000) / 1e6);
}

TEST(FleetModel, PoliciesThatKnowPrefixesFindMoreThanThoseThatDoNot) {
  const ModelFleet how;
  const auto trace = dialogues(31, 8, kApartNs);
  const double blind = run("round_robin", how, trace).cached, least = run("least_load", how, trace).cached;
  for (const char* policy : {"prefix", "predicted"}) {
    const FleetResult knows = run(policy, how, trace);
    EXPECT_GT(knows.cached, blind + 0.2) << policy;
    EXPECT_GT(knows.cached, least + 0.2) << policy;
    EXPECT_LT(knows.busiest, 2) << policy;
  }
}

// Sixteen times the workers and dialogues: as much is found as before four.
TEST(FleetModel, ManyWorkersFindAsMuchAsFew) {
  ModelFleet few, many;
  many.n_workers = 64;
  const auto trace = dialogues(31, 8, kApartNs), wide = dialogues(16 * 31, 8, kApartNs / 16);
  const double found = run("prefix", few, trace).cached;
  EXPECT_GT(found, 0.6);
  const FleetResult result = run("prefix", many, wide);
  EXPECT_GT(result.cached, 0.95 * found);
  EXPECT_LT(result.busiest, 1.6);
  many.informed = true;
  EXPECT_GT(result.cached, 0.95 * run("prefix", many, wide).cached);
}

// Routers that know nothing of each other but what the workers say of themselves, once a second: where a fifth of all
// requests goes to one worker past them they see it, and where all do the same they do not all run to one worker.
TEST(FleetModel, ByTheWorkersWordRoutersSeeWhatOthersGave) {
  for (const bool past : {true, false}) {
    Rng rng(17);
    std::vector<ModelRequest> trace;
    for (int64_t at = 0; std::ssize(trace) < 3'000; at += rng.between(0, 110'000'000)) {
      ModelRequest r;
      r.arrival_ns = at;
      r.prompt_tokens = rng.between(50, 400);
      r.answer_tokens = rng.between(0, 9) == 0 ? rng.between(1000, 2000) : rng.between(20, 200);
      if (past && rng.between(0, 4) == 0) r.past_to = 0;
      trace.push_back(std::move(r));
    }
    for (const int n_routers : {2, 8}) {
      ModelFleet how;
      how.speed.n_running = 16;
      how.n_routers = n_routers;
      const FleetResult blind = run("least_load", how, trace);
      how.word_every_ns = 1'000'000'000;
      const FleetResult told = run("least_load", how, trace);
      EXPECT_EQ(told.n_done, std::ssize(trace));
      EXPECT_EQ(told.left_tokens, 0);
      if (past)
        EXPECT_LT(told.first_p99_ms, 0.1 * blind.first_p99_ms) << n_routers;
      else
        EXPECT_LT(told.first_p99_ms, 1.2 * blind.first_p99_ms) << n_routers;
    }
  }
}

// A thousand a second that begin alike: who had the beginning first is not given them all.
TEST(FleetModel, ABeginningThatAllAskForOverloadsNobody) {
  std::vector<ModelRequest> trace(4'000);
  for (size_t i = 0; i < trace.size(); ++i)
    trace[i] = {static_cast<int64_t>(i) * 1'000'000, 3 * kModelBlock + 7, 20 + static_cast<int64_t>(i % 5), {1, 2, 3}};
  ModelFleet how;
  how.measures = true;
  for (const char* policy : {"prefix", "predicted", "hash"}) {
    const FleetResult result = run(policy, how, trace);
    EXPECT_EQ(result.n_done, std::ssize(trace)) << policy;
    EXPECT_GE(result.within, 0.9) << policy;  // of sixteen looks
    EXPECT_LT(result.busiest, 1.3) << policy;
    EXPECT_GT(result.cached, 0.95) << policy;
  }
}

TEST(FleetModel, NothingIsLostWhereAWorkerDies) {
  ModelFleet how;
  const auto trace = dialogues(31, 8, kApartNs);
  how.dies_ns = trace[trace.size() / 2].arrival_ns + 1;
  how.down_ns = 2'000'000'000;
  int64_t n_moved = 0;
  for (const char* policy : {"prefix", "predicted", "hash", "least_load", "two_choices", "round_robin"}) {
    const FleetResult whole = run(policy, {}, trace), broken = run(policy, how, trace);
    EXPECT_EQ(broken.n_done, std::ssize(trace)) << policy;
    EXPECT_EQ(broken.left_tokens, 0) << policy;
    EXPECT_EQ(whole.n_moved, 0) << policy;
    const FleetResult again = run(policy, how, trace);
    EXPECT_EQ(again.first_p99_ms, broken.first_p99_ms) << policy;
    EXPECT_EQ(again.cached, broken.cached) << policy;
    n_moved += broken.n_moved;
  }
  EXPECT_GT(n_moved, 0);
}

}  // namespace
}  // namespace quire
