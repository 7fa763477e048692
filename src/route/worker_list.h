// Workers that enter themselves in a directory. The one idea: a lease. A worker renews its line in a Redis each second,
// by the Redis's clock alone; a router reads the lines that have not ended. Only a hint: a Redis that is gone, empty or
// full takes no worker away that is well, for health is asked of the worker itself. Sorted set "quire:workers": a
// worker's URL, scored by the millisecond in which its lease ends. Needs scripts (EVAL, Redis 5 or Valkey).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sweeper.h"
#include "redis/redis_client.h"
#include "route/worker.h"

namespace quire {

inline constexpr size_t kMostEntered = 1024;      // workers that a router takes from a directory
inline constexpr size_t kMostEnteredBytes = 512;  // of a worker's URL there

// A worker's place in the directory, for as long as this lives. Threads of its own.
class WorkerEntry {
 public:
  static constexpr int kLeaseMs = 5'000;
  // Enters when it can, and again and again; the log says when it is entered, and once why it is not. `url`: as routers
  // are to reach it, at most kMostEnteredBytes.
  WorkerEntry(RedisOptions redis, std::string url, int64_t every_ms = 1'000);
  // Leaves, where the Redis answers within 200 ms; else its lease ends.
  ~WorkerEntry();

 private:
  enum class Told : uint8_t { nothing, entered, refused };
  void enter();
  void hear(const RedisReply& reply);

  const std::string url_;
  Told told_ = Told::nothing;  // by the last reply; of the connection's thread
  RedisClient redis_;
  std::optional<Sweeper> sweeper_;  // last: it uses the others
};

// The workers that a directory has told of. One thread at a time.
class EnteredWorkers {
 public:
  // `only_tls`: lines without https are left out.
  explicit EnteredWorkers(bool only_tls = false) : only_tls_(only_tls) {}
  // What its lines are now, each a URL and behind it a line feed, but for the last. Of them the first kMostEntered are
  // read, and what is no worker's URL, or too long, is left out. Of whom `is_up` says that it is well, that stays as it
  // is, whatever the lines say; they only fill up what it leaves of kMostEntered. True: they are others than before.
  bool hear(std::string_view lines, const std::function<bool(const WorkerSpec& worker)>& is_up);
  const std::vector<WorkerSpec>& workers() const { return workers_; }

 private:
  bool only_tls_;
  std::vector<WorkerSpec> workers_;
};

// Reads the directory each second for as long as it lives. Threads of its own.
class WorkerList {
 public:
  using IsUp = std::function<bool(const WorkerSpec& worker)>;
  using Changed = std::function<void(const std::vector<WorkerSpec>& workers)>;
  // Both are called on its own thread until its end, and must not block for long.
  WorkerList(RedisOptions redis, EnteredWorkers entered, IsUp is_up, Changed changed, int64_t every_ms = 1'000);

 private:
  void ask();
  void hear(const RedisReply& reply);

  const IsUp is_up_;
  const Changed changed_;
  EnteredWorkers entered_;     // of the connection's thread
  bool told_refused_ = false;  // likewise
  RedisClient redis_;
  Sweeper sweeper_;  // last: it uses the others
};

}  // namespace quire
