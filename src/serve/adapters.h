// Adapters as requests name them, loaded and unloaded while the server runs. A request holds the one that it began
// with: what is unloaded, or replaced under its name, goes when the last of these ends. More may have names than there
// is memory for: of those that no request holds the one that was asked for longest ago leaves memory where another
// needs its room, and is read again by the next request that asks for it, which waits. Any thread.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "serve/limits.h"

namespace quire {

class AdapterTable {
 public:
  struct Entry {
    std::string name, folder;
    uint64_t content = 0;  // Adapter::content, when it was read last
    int64_t bytes = 0;     // of memory, likewise
    bool in_memory = true;
    std::vector<Token> invocation = {};  // Adapter::invocation, as content
  };
  struct Stats {
    int64_t n_in_memory = 0, bytes = 0;    // of those that have a name
    int64_t n_loads = 0, n_evictions = 0;  // so far
  };
  struct Room {
    int64_t most_bytes = 0;  // that the adapter may take of the table's
    // What a load says that failed for want of the backend's memory: how many bytes more it needs at least, above 0.
    int64_t backend_lacks = 0;
  };
  // Reads a folder for the model that is served. Code::exhausted where there is no room. Any thread, one at a time.
  using Load = std::function<Result<std::shared_ptr<const Adapter>>(const std::string& folder, Room& room)>;

  // Limits: n_adapters that have a name, adapter_bytes of all that are in memory.
  AdapterTable(Load load, const ServeLimits& limits)
      : load_(std::move(load)), n_most_(limits.n_adapters), bytes_most_(limits.adapter_bytes) {}

  // From now on load() takes paths below this folder alone, wherever links lead to; one that is relative begins there.
  // Before requests come. An error where it is no folder.
  Status allow_below(const std::string& root);

  // All or nothing. `replace`: the name may be taken. Code::invalid for a name that is taken otherwise or is none, and
  // for a path that is not allowed, Code::exhausted where requests hold so much that there is no room, or the backend
  // has too little memory; others as Load's.
  Status load(const std::string& name, const std::string& folder, bool replace);
  // Code::not_found where nothing has that name.
  Status unload(std::string_view name);
  // The adapter of that name, read where it is not in memory. Code::not_found where nothing has the name, others as
  // load's.
  Result<std::shared_ptr<const Adapter>> acquire(std::string_view name);
  Stats stats() const;
  // By name; holds none.
  std::vector<Entry> all() const;

 private:
  struct Named {
    Entry entry;
    std::shared_ptr<const Adapter> adapter;  // null: it is not in memory
    int64_t last_use = 0;                    // counts up over all
  };
  Status check(const std::string& name, bool replace);
  // The path as it is opened.
  Result<std::string> allowed(const std::string& path) const;
  // Where it stands, or would. REQUIRES mu_.
  std::vector<Named>::iterator place_of(std::string_view name);
  // Null where nothing has the name. REQUIRES mu_.
  Named* find(std::string_view name);
  // REQUIRE loading_. Makes room and reads. `bytes`: what it took last, 0: not known.
  Result<std::shared_ptr<const Adapter>> read(const std::string& folder, int64_t bytes);
  // How many bytes that gave; nothing: requests hold all that are in memory.
  std::optional<int64_t> evict_one();
  // As many as give so many bytes; false, and none, where those that no request holds have fewer.
  bool evict(int64_t bytes);
  int64_t bytes_in_memory();

  const Load load_;
  std::filesystem::path root_;  // with all links resolved; empty: any path
  const int64_t n_most_, bytes_most_;
  std::mutex loading_;  // one load at a time
  mutable std::mutex mu_;
  std::vector<Named> named_;                          // guarded by mu_; by name
  std::vector<std::weak_ptr<const Adapter>> loaded_;  // guarded by loading_: all that may still be in memory
  int64_t last_use_ = 0;                              // guarded by mu_, as are those that follow
  int64_t n_loads_ = 0, n_evictions_ = 0;
};

// Gauges and counters of a table, as text of Prometheus.
std::string adapter_lines(const AdapterTable::Stats& stats);

// A name for an adapter beside these names: not empty, at most name_bytes of printable characters without ':'.
// Code::invalid says what is wrong with it.
Status check_adapter_name(std::string_view name, const std::vector<std::string>& taken, const ServeLimits& limits);

}  // namespace quire
