// What all requests of a router share. Made once, outlives them; any thread.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/hash128.h"
#include "base/metrics.h"
#include "base/secure_random.h"
#include "http/byte_budget.h"
#include "http/upstream.h"
#include "route/directory.h"
#include "route/fleet.h"
#include "route/kv_index.h"
#include "route/limits.h"
#include "route/local_engines.h"
#include "route/retry_budget.h"
#include "route/token_questions.h"
#include "route/waiting.h"

namespace quire {

struct RouteCounters {
  explicit RouteCounters(Metrics& m)
      : requests(m.counter("quire_route_requests_total", "Requests that a worker was looked for.")),
        retries(m.counter("quire_route_retries_total", "Requests asked of a second worker.")),
        failures(m.counter("quire_route_failures_total", "Requests that ended by a worker's fault.")),
        cut_streams(m.counter("quire_route_cut_streams_total", "Of them, after the first byte of their answer.")),
        moved_streams(m.counter("quire_route_moved_streams_total", "Streams that went on at another worker.")),
        no_worker(m.counter("quire_route_no_worker_total", "Requests refused because no worker could be given them.")),
        desired_replicas(m.gauge("quire_route_desired_replicas",
                                 "Workers that this router's requests need, not rounded; add up those of routers.")) {}
  Counter &requests, &retries, &failures, &cut_streams, &moved_streams, &no_worker;
  Gauge& desired_replicas;
};

// Of a request: the ids of the routers that it went through, with commas between them.
inline constexpr std::string_view kRouterHeader = "x-quire-router";
inline constexpr size_t kMostRouterBytes = 512;  // of it

struct RouteContext {
  RouteContext(const RouteLimits& l, Clock& c, Metrics& m, std::shared_ptr<Fleet> f, LocalEngines* e)
      : limits(l),
        clock(c),
        fleet(std::move(f)),
        engines(e),
        counters(m),
        retries(l.n_retries),
        waiting(l, c),
        held(std::make_shared<ByteAccount>(std::make_shared<ByteBudget>(2 * l.held_bytes))) {}
  const RouteLimits& limits;
  Clock& clock;
  const std::string router_id = to_hex({secure_random_bits(), secure_random_bits()});
  const std::shared_ptr<Fleet> fleet;
  LocalEngines* const engines;  // null: there are none
  RouteCounters counters;
  RetryBudget retries;
  Waiting waiting;
  const std::shared_ptr<ByteAccount> held;  // by requests, of held_bytes: the only account, so half of its budget
  std::atomic<int64_t> n_under_way{0};      // requests that are passed on
  std::unique_ptr<Directory> directory;     // null: there is none
  UpstreamLimits upstream, probe;
  // What workers say that they hold, and who asks them for prompts' tokens; null: nobody listens to their events.
  std::unique_ptr<KvIndex> held_blocks;
  std::unique_ptr<TokenQuestions> tokens;
  std::string worker_key;  // what workers are sent instead of the clients' keys; empty: theirs
  // A local engine has the router's own keys, so it gets the client's.
  bool sends_key_to(const WorkerSpec& worker) const { return !worker_key.empty() && !worker.is_local(); }
};

}  // namespace quire
