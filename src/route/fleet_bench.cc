// What a choice costs: prompts of 8 and 64 KiB whose beginnings are known, over 4 to 1000 workers, beside the reading
// of the body. The router's share of a request's first byte.
#include <benchmark/benchmark.h>

#include "base/rng.h"
#include "http/message.h"
#include "route/fleet.h"
#include "route/session_key.h"

namespace quire {
namespace {

std::string body_of(int64_t n_bytes, uint64_t dialogue) {
  return "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" + std::to_string(dialogue) +
         std::string(static_cast<size_t>(n_bytes), 'x') + "\"}]}";
}

void choose(benchmark::State& state) {
  const RouteLimits limits;
  SystemClock clock;
  Metrics metrics;
  const auto fleet = std::make_shared<Fleet>("prefix", limits, clock, metrics);
  std::vector<WorkerSpec> specs;
  specs.reserve(static_cast<size_t>(state.range(0)));
  for (int i = 0; i < state.range(0); ++i) specs.push_back({{"w", 1 + i}, ""});
  fleet->set_workers(specs);
  for (const auto& worker : fleet->workers()) {
    fleet->probed(*worker, Probe::well);
    fleet->set_models(*worker, {Json::Object{{"id", "m"}}});
  }
  HttpRequest request;
  request.path = "/v1/chat/completions";
  std::vector<RouteAsk> asks;
  asks.reserve(64);
  for (uint64_t i = 0; i < 64; ++i) asks.push_back(route_ask(request, read_asked(body_of(state.range(1), i)), 1));
  Rng rng(1);
  std::vector<std::optional<Picked>> held(256);
  for (auto _ : state) {
    auto& slot = held[rng.bits() % held.size()];
    slot.reset();
    slot = fleet->choose(asks[rng.bits() % asks.size()], {});
  }
}

void read(benchmark::State& state) {
  HttpRequest request;
  request.path = "/v1/chat/completions";
  const std::string body = body_of(state.range(0), 1);
  for (auto _ : state) benchmark::DoNotOptimize(route_ask(request, read_asked(body), 1));
  state.SetBytesProcessed(state.iterations() * std::ssize(body));
}

BENCHMARK(choose)->ArgsProduct({{4, 64, 1000}, {8 << 10, 64 << 10}})->Unit(benchmark::kMicrosecond);
BENCHMARK(read)->Arg(8 << 10)->Arg(64 << 10)->Arg(8 << 20)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire
