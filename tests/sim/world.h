// One script, run: an engine over the scripted model under a virtual clock, with the script's faults, and everything
// that must hold checked after every step. One thread; the same script gives the same run.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/script.h"

namespace quire::sim {

// What the runs reached. A simulation that reaches nothing proves nothing: the tests ask for each of these.
struct Counts {
  int64_t runs = 0, steps = 0, rows = 0, submitted = 0, finished = 0, cancelled = 0, failed = 0;
  int64_t preempted = 0, recomputed = 0, cached = 0;
  int64_t out_of_blocks = 0, strict = 0;  // of the preempted; steps with Recomputed::n_strict
  int64_t drafted = 0, accepted = 0, bad_drafts = 0;
  int64_t too_long = 0, never_fits = 0, queue_full = 0, no_memory = 0, too_late = 0;
  int64_t slow = 0, jumps = 0, throws = 0;
  int64_t apart = 0;  // times that a sequence had its sinks and its window and nothing between, after a step
  // Of a tier: tokens that it brought, runs of blocks that were begun, overtaken, ended by a block that could not be
  // had, and cancelled and sent back while they were on their way; reads that never ended.
  int64_t loaded = 0, loads = 0, overtaken = 0, loads_lost = 0, cancelled_loading = 0, preempted_loading = 0;
  int64_t stalled = 0;
  // Of a store that is shared: paths that it was asked for, its answers, those that were lies; blocks that it brought,
  // did not take for want of room; times that it was away.
  int64_t asked = 0, answered = 0, lies = 0, brought = 0, full = 0, away = 0;
  std::array<int64_t, kNRowFaults> row_faults{};

  void add(const Counts& other);
  std::string text() const;
};

struct Outcome {
  std::string failure;     // empty when all held
  uint64_t decisions = 0;  // hash of everything that the engine decided, in order
  Counts counts;
  std::vector<int64_t> ttft_ns;        // of each request of the script; 0: it heard no token
  int64_t end_ns = 0;                  // of the virtual clock
  std::map<uint64_t, int64_t> served;  // of each tenant, when last all of them waited: virtual tokens
};

Outcome run(const Script& script);

}  // namespace quire::sim
