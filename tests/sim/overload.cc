#include "tests/sim/overload.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/sim/world.h"

namespace quire::sim {
namespace {

constexpr int kRequests = 240;
constexpr int kPercents[] = {100, 20, 5, 1, 0};  // 100: no bound
constexpr double kLoads[] = {0.5, 0.9, 1.2, 2, 4};

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

// Of a load under a bound, over n seeds.
struct Cell {
  std::string failure;
  Counts counts;
  std::vector<int64_t> ttft_ns;
  double seconds = 0;  // of all runs
};

Cell run_seeds_of(const Overload& what, uint64_t n) {
  Cell out;
  for (uint64_t seed = 1; seed <= n && out.failure.empty(); ++seed) {
    const Outcome outcome = run(overload_script(seed, what));
    out.failure = outcome.failure;
    out.counts.add(outcome.counts);
    out.seconds += 1e-9 * static_cast<double>(outcome.end_ns);
    out.ttft_ns.insert(out.ttft_ns.end(), outcome.ttft_ns.begin(), outcome.ttft_ns.end());
  }
  return out;
}

std::string text_of(Cell cell) {
  const auto middle = cell.ttft_ns.begin() + static_cast<std::ptrdiff_t>(cell.ttft_ns.size() / 2);
  std::ranges::nth_element(cell.ttft_ns, middle);
  const double share = static_cast<double>(cell.counts.recomputed) / static_cast<double>(cell.counts.rows);
  char out[80];
  std::snprintf(out, sizeof out, " %.1f %%, %.1f s |", 100 * share, 1e-9 * static_cast<double>(*middle));
  return out;
}

}  // namespace

Script overload_script(uint64_t seed, const Overload& what) {
  Rng rng(mix64(seed ^ 0x0e41));
  Script script;
  script.seed = seed;
  script.knobs = machine();
  script.knobs.recompute_percent = what.recompute_percent;
  for (int i = 0; i < kRequests; ++i) {
    const double mean = what.grown && i < kRequests / 2 ? 25 : 200;
    RequestScript r;
    r.prompt = {{1000 + static_cast<uint64_t>(i), static_cast<int>(rng.between(20, 300))}};
    r.max_tokens = script.knobs.n_ctx - r.prompt[0].n;
    r.end_after = std::clamp(static_cast<int>(-std::log1p(-rng.unit()) * mean), 1, r.max_tokens);
    r.arrival_ns = i * what.gap_ns;
    script.requests.push_back(r);
  }
  return script;
}

double served_per_s(uint64_t n) {
  const Cell all = run_seeds_of({.gap_ns = 0}, n);
  return all.failure.empty() ? static_cast<double>(n) * kRequests / all.seconds : 0;
}

std::string overload_tables(uint64_t n) {
  const double served = served_per_s(n);
  if (served == 0) return "a run in which all requests come at once failed\n";
  std::string out;
  for (const bool grown : {false, true}) {
    out += std::string(grown ? "\n" : "") + "| load, " + (grown ? "answers grow" : "answers alike") + " |";
    for (const int percent : kPercents) out += percent == 100 ? " no bound |" : " " + std::to_string(percent) + " % |";
    out += "\n|---|---|---|---|---|---|\n";
    for (const double load : kLoads) {
      char name[40];
      std::snprintf(name, sizeof name, "| %.1f |", load);
      out += name;
      for (const int percent : kPercents) {
        const Cell cell = run_seeds_of({grown, percent, static_cast<int64_t>(1e9 / (load * served))}, n);
        if (!cell.failure.empty()) return cell.failure + "\n";
        out += text_of(cell);
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace quire::sim
