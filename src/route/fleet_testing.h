// For tests of the fleet: workers that are up, on a clock of their own, without sockets.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "route/fleet.h"

namespace quire {

inline constexpr int64_t kMs = 1'000'000;

struct FleetWorld {
  explicit FleetWorld(int n_workers, std::string_view policy = "prefix", const RouteLimits& l = {})
      : limits(l), fleet(std::make_shared<Fleet>(policy, limits, clock, metrics)) {
    set(n_workers);
    for (const auto& worker : fleet->workers()) fleet->probed(*worker, Probe::well);
  }
  void set(int n) {
    std::vector<WorkerSpec> specs;
    specs.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) specs.push_back({{"w", 1 + i}, ""});
    fleet->set_workers(specs);
  }
  std::shared_ptr<Worker> worker(size_t i) const { return fleet->workers()[i]; }
  int64_t load() const {
    int64_t all = 0;
    for (const WorkerState& w : fleet->states()) all += w.load_tokens + w.n_requests;
    return all;
  }
  RouteLimits limits;
  ManualClock clock;
  Metrics metrics;
  std::shared_ptr<Fleet> fleet;
};

inline RouteAsk asks(std::optional<Hash128> session, int64_t tokens = 100) {
  RouteAsk out;
  out.session = session;
  out.prompt_tokens = tokens;
  return out;
}

}  // namespace quire
