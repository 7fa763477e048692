// What the router adds to an answer: one request after the other over one connection, to a server that answers at once,
// asked directly and through a router. Client, router and server share the machine.
#include <benchmark/benchmark.h>

#include "http/client.h"
#include "http/testing.h"
#include "route/run.h"

namespace quire {
namespace {

std::unique_ptr<Server> start_worker(Handler& handler) { return std::move(*Server::start({}, handler)); }

void ask(benchmark::State& state, int port, int64_t n_bytes) {
  HttpClient client({.port = port});
  const ClientRequest request{"POST",
                              "/v1/completions",
                              {{"Content-Type", "application/json"}},
                              "{\"prompt\":\"" + std::string(static_cast<size_t>(n_bytes), 'x') + "\"}"};
  int64_t n_failed = 0;
  for (auto _ : state) {
    const auto response = client.request(request);
    n_failed += !response || response->status != 200;
  }
  if (n_failed > 0) state.SkipWithError("not answered");
}

FunctionHandler& handler() {
  static FunctionHandler one([](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "{}"); });
  return one;
}

void direct(benchmark::State& state) {
  const auto worker = start_worker(handler());
  ask(state, worker->port(), state.range(0));
}

void routed(benchmark::State& state) {
  const auto worker = start_worker(handler());
  Metrics metrics;
  RouteOptions options;
  options.port = 0;
  options.workers = {{{"127.0.0.1", worker->port()}, ""}};
  const auto router = std::move(*start_router(options, metrics));
  HttpClient probe({.port = router->port()});
  eventually([&] { return probe.request({"GET", "/ready", {}, ""})->status == 200; });
  ask(state, router->port(), state.range(0));
}

BENCHMARK(direct)->Arg(100)->Arg(16 << 10)->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK(routed)->Arg(100)->Arg(16 << 10)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace quire
