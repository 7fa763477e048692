// What the workers have to do for other routers. The one idea: each router holds one of a few places in a Redis by a
// lease of two seconds, writes there what it gave each worker, and reads what stands in the others'; a router that is
// gone is forgotten with its lease. Only a hint, as the directory is: nobody waits for it, and without it, or with one
// that lies, a worker's load is what this router knows itself. One thread of its own.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "base/sweeper.h"
#include "redis/redis_client.h"
#include "route/worker_load.h"

namespace quire {

inline constexpr int kRouterPlaces = 16;

// What stands in a place. At most kMostLoadsBytes: what does not fit is left out.
inline constexpr size_t kMostLoadsBytes = 48 << 10;
struct RouterLoads {
  uint64_t router = 0;
  std::vector<WorkerLoad> workers;
};
std::string write_loads(const RouterLoads& loads);
// Nullopt: it is not of our making. Numbers are within 0 and 2^40.
std::optional<RouterLoads> read_loads(std::string_view text);

// What stands in all places, empty where nothing does: which one is `router`'s (or is to be its, −1: none is free),
// and what all others have given, each worker once.
struct PlacesSeen {
  int own = -1;
  bool held = false;  // `own` is its already
  int n_others = 0;
  std::vector<WorkerLoad> others;
};
PlacesSeen look_at_places(std::span<const std::string> places, uint64_t router);

class SharedLoads {
 public:
  using Own = std::function<std::vector<WorkerLoad>()>;                       // of this router; those that are not 0
  using Others = std::function<void(const std::vector<WorkerLoad>& others)>;  // of all others, whenever it is read

  // `own` and `others` are called by its thread until its end; `metrics` outlives it.
  SharedLoads(const RedisOptions& redis, Own own, Others others, Metrics& metrics, int64_t every_ms = 200);

 private:
  struct Round;
  void sweep();
  void ask();
  void tell(const std::vector<WorkerLoad>& others, int n_routers);

  const uint64_t router_;
  const Own own_;
  const Others others_;
  Gauge& routers_;
  std::shared_ptr<Round> round_;  // that was asked last; null: none
  int n_unanswered_ = 0;          // sweeps that it has been waited for
  bool told_full_ = false;
  RedisClient redis_;
  Sweeper sweeper_;  // last: it uses the others
};

}  // namespace quire
