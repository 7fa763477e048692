#include "tests/sim/overload.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/sim/world.h"

namespace quire::sim {
namespace {

// One row takes a millisecond, reading the weights twenty.
Knobs machine() {
  Knobs knobs;
  knobs.max_seqs = 64;
  knobs.step_tokens = knobs.max_chunk = 256;
  knobs.n_ctx = 1024;
  knobs.n_blocks = 8 * knobs.n_ctx / knobs.block_tokens;
  knobs.max_queue = 1000;
  knobs.base_ns = 20'000'000;
  knobs.row_ns = 1'000'000;
  return knobs;
}

}  // namespace

Script overload_script(uint64_t seed, bool grown, int recompute_percent) {
  constexpr int kRequests = 240;
  Rng rng(mix64(seed ^ 0x0e41));
  Script script;
  script.seed = seed;
  script.knobs = machine();
  script.knobs.recompute_percent = recompute_percent;
  for (int i = 0; i < kRequests; ++i) {
    const double mean = grown && i < kRequests / 2 ? 25 : 200;
    RequestScript r;
    r.prompt = {{1000 + static_cast<uint64_t>(i), static_cast<int>(rng.between(20, 300))}};
    r.max_tokens = script.knobs.n_ctx - r.prompt[0].n;
    r.end_after = std::clamp(static_cast<int>(-std::log1p(-rng.unit()) * mean), 1, r.max_tokens);
    r.arrival_ns = int64_t{i} * 50'000'000;
    script.requests.push_back(r);
  }
  return script;
}

std::string overload_table(uint64_t n) {
  std::string out =
      "| answers | bound | sent back | computed again, of all rows | time | first token, median "
      "|\n|---|---|---|---|---|---|\n";
  for (const bool grown : {false, true}) {
    for (const int percent : {100, 20, 5, 1}) {
      Counts counts;
      double seconds = 0;
      std::vector<int64_t> ttft;
      for (uint64_t seed = 1; seed <= n; ++seed) {
        const Outcome outcome = run(overload_script(seed, grown, percent));
        if (!outcome.failure.empty()) return outcome.failure + "\n";
        counts.add(outcome.counts);
        seconds += 1e-9 * static_cast<double>(outcome.end_ns);
        ttft.insert(ttft.end(), outcome.ttft_ns.begin(), outcome.ttft_ns.end());
      }
      std::ranges::nth_element(ttft, ttft.begin() + static_cast<std::ptrdiff_t>(ttft.size() / 2));
      char row[200];
      std::snprintf(
          row, sizeof row, "| %s | %s | %lld | %.1f %% | %.0f s | %.1f s |\n", grown ? "200, before that 25" : "200",
          percent == 100 ? "none" : (std::to_string(percent) + " %").c_str(), static_cast<long long>(counts.preempted),
          100.0 * static_cast<double>(counts.recomputed) / static_cast<double>(counts.rows),
          seconds / static_cast<double>(n), 1e-9 * static_cast<double>(ttft[ttft.size() / 2]));
      out += row;
    }
  }
  return out;
}

}  // namespace quire::sim
