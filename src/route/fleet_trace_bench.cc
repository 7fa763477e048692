// What each policy makes of an hour of real conversations, before workers that are models (fleet_model_testing.h): the
// trace's prompts as blocks with names, from data/traces in QUIRE_SHARED. The table in docs/route.md.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>

#include "base/json.h"
#include "route/fleet_model_testing.h"

namespace quire {
namespace {

// `faster`: how many times as many requests in a time. Empty: it is not there, or is no such trace.
std::vector<ModelRequest> conversations(double faster) {
  const char* shared = std::getenv("QUIRE_SHARED");
  std::ifstream in(std::string(shared != nullptr ? shared : "../shared") +
                   "/data/traces/mooncake_conversation_trace.jsonl");
  std::vector<ModelRequest> out;
  for (std::string line; std::getline(in, line);) {
    const Result<Json> json = Json::parse(line);
    const Json* at = json ? json->find("timestamp") : nullptr;
    const Json* n_in = at != nullptr ? json->find("input_length") : nullptr;
    const Json* n_out = at != nullptr ? json->find("output_length") : nullptr;
    const Json* ids = at != nullptr ? json->find("hash_ids") : nullptr;
    if (n_in == nullptr || n_out == nullptr || ids == nullptr || ids->as_array() == nullptr) return {};
    ModelRequest r;
    r.arrival_ns = static_cast<int64_t>(at->number() * 1e6 / faster);
    r.prompt_tokens = std::max<int64_t>(1, static_cast<int64_t>(n_in->number()));
    r.answer_tokens = std::max<int64_t>(1, static_cast<int64_t>(n_out->number()));
    for (const Json& id : *ids->as_array()) r.blocks.push_back(random_bits(7, static_cast<uint64_t>(id.number())));
    r.blocks.resize(std::min(r.blocks.size(), static_cast<size_t>(r.prompt_tokens / kModelBlock)));  // whole ones
    out.push_back(std::move(r));
  }
  return out;
}

// Of a death: in the middle, for five minutes.
void conversation(benchmark::State& state, const std::string& policy) {
  const double faster = static_cast<double>(state.range(0)) / 100;
  const auto trace = conversations(faster);
  if (trace.empty()) return state.SkipWithError("no trace in data/traces of QUIRE_SHARED");
  ModelFleet how;
  how.speed.cache_blocks = state.range(1);
  if (state.range(2) != 0) {
    how.dies_ns = trace.back().arrival_ns / 2;
    how.down_ns = 300 * kNsPerSecond;
  }
  FleetResult result;
  for (auto _ : state) result = FleetModel(policy, how, trace).run();
  state.counters["cached_%"] = 100 * result.cached;
  state.counters["p50_ms"] = result.first_p50_ms;
  state.counters["p99_ms"] = result.first_p99_ms;
  state.counters["busiest"] = result.busiest;
  state.counters["moved"] = static_cast<double>(result.n_moved);
  for (const auto& [reason, times] : result.reasons) state.counters[reason] = static_cast<double>(times);
}

// The trace once for each four workers, copies under salts and a little later each: what of them is found in caches,
// beside one cache as large as all together that sees every request in order.
void fleet_of(benchmark::State& state, const std::string& policy) {
  const auto once = conversations(0.6);
  if (once.empty()) return state.SkipWithError("no trace in data/traces of QUIRE_SHARED");
  ModelFleet how;
  how.n_workers = static_cast<int>(state.range(0));
  how.measures = true;
  how.limits.n_prefix_blocks = state.range(2);
  how.informed = state.range(2) == 0;
  const auto n = static_cast<size_t>(state.range(1));
  std::vector<ModelRequest> trace;
  trace.reserve(n + once.size());
  const int64_t n_copies = static_cast<int64_t>((n + once.size() - 1) / once.size());
  const int64_t hour_ns = once.back().arrival_ns;
  for (int64_t copy = 0; copy < n_copies; ++copy) {
    for (const ModelRequest& r : once) {
      ModelRequest& one = trace.emplace_back(r);
      one.arrival_ns = (r.arrival_ns + copy * hour_ns / n_copies) % (hour_ns + 1);
      for (uint64_t& block : one.blocks) block = random_bits(block, static_cast<uint64_t>(copy));
    }
  }
  std::ranges::stable_sort(trace, {}, &ModelRequest::arrival_ns);
  // As busy as four workers are with the trace.
  for (ModelRequest& r : trace) r.arrival_ns = r.arrival_ns * 4 * n_copies / how.n_workers;
  trace.resize(std::min(trace.size(), n));
  PrefixMap all(how.speed.cache_blocks * how.n_workers);
  int64_t found = 0, tokens = 0;
  for (const ModelRequest& r : trace) {
    const auto hits = all.find(r.blocks);
    found += std::min(hits.empty() ? 0 : hits.front().n_blocks * kModelBlock, r.prompt_tokens - 1);
    tokens += r.prompt_tokens;
    all.add(r.blocks, 1);
  }
  FleetResult result;
  for (auto _ : state) result = FleetModel(policy, how, trace).run();
  state.counters["cached_%"] = 100 * result.cached;
  state.counters["one_cache_%"] = 100 * static_cast<double>(found) / static_cast<double>(tokens);
  state.counters["choice_p50_us"] = result.choice_p50_us;
  state.counters["choice_p99_us"] = result.choice_p99_us;
  state.counters["within_%"] = 100 * result.within;
  for (const auto& [reason, times] : result.reasons) state.counters[reason] = static_cast<double>(times);
  state.counters["busiest"] = result.busiest;
  state.counters["p50_ms"] = result.first_p50_ms;
  state.counters["p99_ms"] = result.first_p99_ms;
}
// known_blocks: of each worker; 0: the router is told what each holds.
BENCHMARK_CAPTURE(fleet_of, prefix, "prefix")
    ->ArgNames({"workers", "requests", "known_blocks"})
    ->ArgsProduct({{1000}, {1'000'000}, {32'768}})
    ->ArgsProduct({{4}, {12'000}, {0, 32'768}})
    ->ArgsProduct({{100}, {100'000}, {0, 32'768}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fleet_of, least_load, "least_load")
    ->ArgNames({"workers", "requests", "known_blocks"})
    ->Args({100, 100'000, 0})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void add(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rate_%", "blocks", "dies"})
      ->ArgsProduct({{60, 100, 130}, {1500, 6000}, {0, 1}})
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(conversation, round_robin, "round_robin")->Apply(add);
BENCHMARK_CAPTURE(conversation, least_load, "least_load")->Apply(add);
BENCHMARK_CAPTURE(conversation, two_choices, "two_choices")->Apply(add);
BENCHMARK_CAPTURE(conversation, hash, "hash")->Apply(add);
BENCHMARK_CAPTURE(conversation, prefix, "prefix")->Apply(add);
BENCHMARK_CAPTURE(conversation, predicted, "predicted")->Apply(add);

}  // namespace
}  // namespace quire
