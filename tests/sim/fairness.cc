#include "tests/sim/fairness.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>

#include "engine/replay.h"
#include "tests/sim/world.h"

namespace quire::sim {
namespace {

constexpr uint64_t kFlood = 0, kQuiet = 1;
constexpr int kAllowance = 8192;  // about eleven seconds of this machine

// One row of prompt takes a millisecond, reading the weights twenty.
Knobs machine() {
  Knobs knobs;
  knobs.max_seqs = 4;
  knobs.step_tokens = knobs.max_chunk = 64;
  knobs.n_ctx = 1600;
  knobs.n_blocks = 4 * 1600 / knobs.block_tokens;
  knobs.max_queue = 1000;
  knobs.base_ns = 20'000'000;
  knobs.row_ns = 1'000'000;
  return knobs;
}

std::string row(const char* format, auto... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

struct Kind {
  int n_prompt, max_tokens, weight;
};

// Two tenants that send all at once, of these kinds.
Script shares_script(const char* policy, int allowance, const Kind& one, const Kind& two) {
  Script script;
  script.knobs = machine();
  script.knobs.policy = policy;
  script.knobs.allowance = allowance;
  uint64_t text = 1000;
  for (const auto& [tenant, kind] : {std::pair{kFlood, one}, std::pair{kQuiet, two}}) {
    const int n = 30'000 / (kind.n_prompt + 2 * kind.max_tokens);
    for (int i = 0; i < n; ++i) {
      RequestScript r;
      r.tenant = tenant;
      r.weight = kind.weight;
      r.prompt = {{text++, kind.n_prompt}};
      r.max_tokens = kind.max_tokens;
      script.requests.push_back(r);
    }
  }
  return script;
}

std::string shares_table() {
  std::string out =
      "| requests of A (prompt + answer) | of B | weights | wanted | `fcfs` | `vtc`, no allowance | `vtc`, 1024 |\n"
      "|---|---|---|---|---|---|---|\n";
  const std::pair<Kind, Kind> all[] = {
      {{300, 20, 1}, {300, 20, 1}}, {{1200, 10, 1}, {20, 10, 1}}, {{300, 10, 1}, {20, 200, 1}},
      {{300, 20, 1}, {300, 20, 2}}, {{300, 20, 1}, {300, 20, 4}}, {{1200, 10, 1}, {20, 10, 3}},
  };
  for (const auto& [one, two] : all) {
    out += row("| %d + %d | %d + %d | %d : %d | %.2f |", one.n_prompt, one.max_tokens, two.n_prompt, two.max_tokens,
               one.weight, two.weight, static_cast<double>(two.weight) / one.weight);
    for (const auto& [policy, allowance] :
         {std::pair{"fcfs", 0}, std::pair{"vtc", 0}, std::pair{"vtc", kAllowance / 8}}) {
      const Outcome outcome = run(shares_script(policy, allowance, one, two));
      if (!outcome.failure.empty()) return outcome.failure;
      const auto a = static_cast<double>(outcome.served.at(kFlood)), b = static_cast<double>(outcome.served.at(kQuiet));
      out += row(" %.2f (%lld sent back, %lld steps) |", b / a, static_cast<long long>(outcome.counts.preempted),
                 static_cast<long long>(outcome.counts.steps));
    }
    out += "\n";
  }
  return out;
}

void one_flood(uint64_t seed, Met met, FloodTimes& out) {
  const Script script = flood_script(seed, met);
  const Outcome outcome = run(script);
  out.failure = outcome.failure;
  out.n_steps += outcome.counts.steps;
  for (size_t i = 0; i < script.requests.size(); ++i) {
    if (script.requests[i].arrival_ns > 0) out.ttft_ns.push_back(outcome.ttft_ns[i]);
  }
}

}  // namespace

Script flood_script(uint64_t seed, Met met) {
  Rng rng(mix64(seed ^ 0xf100d));
  Script script;
  script.seed = seed;
  script.knobs = machine();
  script.knobs.policy = met == Met::vtc || met == Met::allowance ? "vtc" : "fcfs";
  script.knobs.allowance = met == Met::allowance ? kAllowance : 0;
  const auto add = [&](uint64_t tenant, int64_t at_ns, int n_prompt, int max_tokens) {
    RequestScript r;
    r.arrival_ns = at_ns;
    r.tenant = met == Met::fifo ? 0 : tenant;
    r.prompt = {{1000 + static_cast<uint64_t>(rng.between(0, 1 << 20)), n_prompt}};
    r.max_tokens = max_tokens;
    script.requests.push_back(r);
  };
  // About a third of the machine: a prompt takes a second and a half, and another comes every five.
  double now_ns = 1e9;
  for (int i = 0; i < 6; ++i) {
    add(kQuiet, static_cast<int64_t>(now_ns), static_cast<int>(rng.between(700, 1400)),
        static_cast<int>(rng.between(1, 8)));
    now_ns += -std::log1p(-rng.unit()) * 5e9;
  }
  const auto n_prompt = static_cast<int>(rng.between(10, 1400)), max_tokens = static_cast<int>(rng.between(1, 100));
  const int n = met == Met::alone ? 0 : 40'000 / (n_prompt + 10 * max_tokens) + 4;
  for (int i = 0; i < n; ++i) add(kFlood, 0, n_prompt, max_tokens);
  std::ranges::stable_sort(script.requests, {}, &RequestScript::arrival_ns);
  return script;
}

FloodTimes flood_times(uint64_t first, uint64_t n, Met met) {
  const uint64_t n_threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<FloodTimes> parts(n_threads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < n_threads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = t; i < n && parts[t].failure.empty(); i += n_threads) one_flood(first + i, met, parts[t]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  FloodTimes out;
  for (FloodTimes& part : parts) {
    if (out.failure.empty()) out.failure = part.failure;
    out.n_steps += part.n_steps;
    out.ttft_ns.insert(out.ttft_ns.end(), part.ttft_ns.begin(), part.ttft_ns.end());
  }
  std::ranges::sort(out.ttft_ns);
  return out;
}

std::string fairness_tables(uint64_t n) {
  std::string out = shares_table() +
                    "\n| first token of the quiet tenant | p50 | p90 | p99 | steps of both |\n|---|---|---|---|---|\n";
  const std::pair<const char*, Met> all[] = {{"alone", Met::alone},
                                             {"beside a flood, one queue", Met::fifo},
                                             {"beside a flood, `fcfs` in turns", Met::turns},
                                             {"beside a flood, `vtc`, no allowance", Met::vtc},
                                             {"beside a flood, `vtc`, 8192", Met::allowance}};
  for (const auto& [name, met] : all) {
    const FloodTimes times = flood_times(1, n, met);
    if (!times.failure.empty()) return times.failure;
    const auto at = [&](double q) { return static_cast<double>(at_rank(times.ttft_ns, q)) / 1e9; };
    out += row("| %s | %.2f s | %.2f s | %.2f s | %lld |\n", name, at(0.5), at(0.9), at(0.99),
               static_cast<long long>(times.n_steps));
  }
  return out;
}

}  // namespace quire::sim
