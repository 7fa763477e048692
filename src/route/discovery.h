// Workers that a name stands for: each of its addresses is one. Names are looked up again and again, so workers come
// and go with them; while a name cannot be looked up, what it stood for last stays. Threads of its own.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sweeper.h"
#include "http/host_lookup.h"
#include "route/worker.h"

namespace quire {

// Addresses as workers; those of IPv4 alone where there are any, for a server with both is one worker. In order, each
// once, at most `n_most`.
std::vector<WorkerSpec> workers_at(const WorkerSpec& name, const std::vector<HostAddress>& found, size_t n_most);

class Discovery {
 public:
  // All workers of all names, whenever they are others than before. Called under a lock: must not call back.
  using Changed = std::function<void(const std::vector<WorkerSpec>& workers)>;
  static constexpr size_t kMostWorkers = 1024;  // of one name

  // Calls back as HostLookup::find does; is asked in one thread at a time, the first time in the constructor.
  using Find = std::function<void(const std::string& host, int port, HostLookup::Done done)>;

  // `names`: workers whose host is a name.
  Discovery(const std::vector<WorkerSpec>& names, int64_t every_ms, Changed changed, Find find = nullptr);

 private:
  struct Name {
    explicit Name(WorkerSpec of) : name(std::move(of)) {}
    const WorkerSpec name;
    std::vector<WorkerSpec> workers;  // guarded by mu_
    bool failed = false;              // the last time; likewise
  };
  void ask();
  void hear(Name& name, const std::vector<HostAddress>& found, std::string_view error);

  const Changed changed_;
  std::mutex mu_;
  std::vector<Name> names_;
  HostLookup lookup_;  // its thread uses the above; ends before it
  const Find find_;
  Sweeper sweeper_;  // last: it uses the others
};

}  // namespace quire
