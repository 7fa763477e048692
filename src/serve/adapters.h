// Adapters as requests name them, loaded and unloaded while the server runs. A request holds the one that it began
// with: what is unloaded, or replaced under its name, goes when the last of these ends. Any thread.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
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
    std::shared_ptr<const Adapter> adapter;
  };
  // Reads a folder for the model that is served; at most so many bytes of memory. Any thread, one at a time.
  using Load = std::function<Result<std::shared_ptr<const Adapter>>(const std::string& folder, int64_t most_bytes)>;

  // Limits: n_adapters that have a name, adapter_bytes of all that are in memory.
  AdapterTable(Load load, const ServeLimits& limits)
      : load_(std::move(load)), n_most_(limits.n_adapters), bytes_most_(limits.adapter_bytes) {}

  // All or nothing. `replace`: the name may be taken. Code::invalid for a name that is taken otherwise or is none,
  // Code::exhausted where there is no room; others as Load's.
  Status load(const std::string& name, const std::string& folder, bool replace);
  // Code::not_found where nothing has that name.
  Status unload(std::string_view name);
  // Null where nothing has that name.
  std::shared_ptr<const Adapter> find(std::string_view name) const;
  // By name.
  std::vector<Entry> all() const;

 private:
  Status check(const std::string& name, bool replace) const;
  int64_t bytes_in_memory();

  const Load load_;
  const int64_t n_most_, bytes_most_;
  std::mutex loading_;  // one load at a time
  mutable std::mutex mu_;
  std::vector<Entry> entries_;                        // guarded by mu_
  std::vector<std::weak_ptr<const Adapter>> loaded_;  // guarded by loading_: all that may still be in memory
};

// A name for an adapter beside these names: not empty, at most name_bytes of printable characters without ':'.
// Code::invalid says what is wrong with it.
Status check_adapter_name(std::string_view name, const std::vector<std::string>& taken, const ServeLimits& limits);

}  // namespace quire
