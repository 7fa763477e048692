// A worker: a server behind the router, ours or any that speaks OpenAI's API. Where it is, as a value; and what the
// router knows of it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/metrics.h"
#include "base/result.h"
#include "http/upstream.h"
#include "route/health.h"

namespace quire {

struct WorkerSpec {
  UpstreamAddress at;
  std::string base;        // what stands before /v1, without a slash at its end
  std::string model = {};  // of a local engine: the only model that it is asked for, whatever it lists; else empty
  bool is_local() const { return !model.empty(); }
  // What clients, logs and metrics call it. A local engine's address is another one at each start.
  std::string name() const { return is_local() ? model : at.text() + base; }
  bool operator==(const WorkerSpec&) const = default;
};

// "http://host:port/base"; the scheme, the port (80) and an ending /v1 may be left out. Fails (Code::invalid) naming
// what is wrong, https among it: workers are spoken to without TLS.
Result<WorkerSpec> parse_worker(const std::string& url);

// The name of a model in an entry of /v1/models; null where it has none.
const std::string* id_of(const Json& listed);

struct Worker {
  Worker(WorkerSpec where, const RouteLimits& limits, Metrics& metrics);

  const WorkerSpec spec;
  const std::string name;
  const uint64_t id;  // of the name, not 0
  Counter &n_given, &n_failures;
  std::atomic<int64_t> progressed_ns{0};  // when a byte of an answer of its last came
  std::atomic<bool> being_probed{false};
  int64_t next_probe_ns = 0, next_list_ns = 0;  // of the prober alone

  // Guarded by the fleet.
  WorkerHealth health;
  bool gone = false;  // no longer of the fleet
  // Its number in the prefix map, 0: none. Another one once it was down, for then it holds nothing.
  uint64_t holder = 0;
  int64_t load_tokens = 0, n_requests = 0;
  Json::Array models;               // entries of its /v1/models
  std::vector<uint32_t> model_ids;  // the fleet's numbers of their names
  bool serves(uint32_t model) const;
};

// What a worker has to do for one request, from the moment when it was chosen until this goes. Any thread.
class LoadLease {
 public:
  LoadLease() = default;
  LoadLease(std::shared_ptr<class Fleet> fleet, std::shared_ptr<Worker> worker, int64_t tokens)
      : fleet_(std::move(fleet)), worker_(std::move(worker)), tokens_(tokens) {}
  LoadLease(LoadLease&& other) noexcept { swap(other); }
  LoadLease& operator=(LoadLease&& other) noexcept {
    LoadLease old(std::move(*this));
    swap(other);
    return *this;
  }
  ~LoadLease();

 private:
  void swap(LoadLease& other) noexcept {
    std::swap(fleet_, other.fleet_);
    std::swap(worker_, other.worker_);
    std::swap(tokens_, other.tokens_);
  }
  std::shared_ptr<class Fleet> fleet_;
  std::shared_ptr<Worker> worker_;
  int64_t tokens_ = 0;
};

}  // namespace quire
