// What a router says of each of its workers in Prometheus' text form. The one idea: it is written anew at each look, of
// the workers that there are then, so addresses that come and go leave nothing behind.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "route/fleet.h"
#include "route/kv_index.h"

namespace quire {

struct WorkerFacts {
  WorkerState state;
  std::optional<KvIndex::State> held;  // where events are listened to
};

// Families quire_worker_…, each with one series {worker="NAME"} for each worker (exposition format 0.0.4).
std::string worker_metrics(std::span<const WorkerFacts> workers);

}  // namespace quire
