// What all requests of a router share. Made once, outlives them; any thread.
#pragma once
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "http/upstream.h"
#include "route/fleet.h"
#include "route/limits.h"
#include "route/retry_budget.h"
#include "route/waiting.h"

namespace quire {

struct RouteCounters {
  explicit RouteCounters(Metrics& m)
      : requests(m.counter("quire_route_requests_total", "Requests that a worker was looked for.")),
        retries(m.counter("quire_route_retries_total", "Requests asked of a second worker.")),
        failures(m.counter("quire_route_failures_total", "Requests that ended by a worker's fault.")),
        cut_streams(m.counter("quire_route_cut_streams_total", "Of them, after the first byte of their answer.")),
        no_worker(m.counter("quire_route_no_worker_total", "Requests refused because no worker could be given them.")) {
  }
  Counter &requests, &retries, &failures, &cut_streams, &no_worker;
};

struct RouteContext {
  RouteContext(const RouteLimits& l, Clock& c, Metrics& m, std::shared_ptr<Fleet> f)
      : limits(l), clock(c), fleet(std::move(f)), counters(m), retries(l.n_retries), waiting(l, c) {}
  const RouteLimits& limits;
  Clock& clock;
  const std::shared_ptr<Fleet> fleet;
  RouteCounters counters;
  RetryBudget retries;
  Waiting waiting;
  UpstreamLimits upstream, probe;
  std::string worker_key;  // what workers are sent instead of the clients' keys; empty: theirs
};

}  // namespace quire
