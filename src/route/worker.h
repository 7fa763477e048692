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
#include "route/worker_load.h"

namespace quire {

struct WorkerSpec {
  UpstreamAddress at;
  std::string base;        // what stands before /v1, without a slash at its end
  std::string model = {};  // of a local engine: the only model that it is asked for, whatever it lists; else empty
  bool is_local() const { return !model.empty(); }
  // What clients, logs and metrics call it, over TLS or not. A local engine's address is another one at each start.
  std::string name() const { return is_local() ? model : at.text() + base; }
  bool operator==(const WorkerSpec&) const = default;
};

// "http://host:port/base" or https; the scheme (http), the port (80, 443) and an ending /v1 may be left out. Fails
// (Code::invalid) naming what is wrong.
Result<WorkerSpec> parse_worker(const std::string& url);

// The name of a model in an entry of /v1/models; null where it has none.
const std::string* id_of(const Json& listed);

struct Worker {
  Worker(WorkerSpec where, const RouteLimits& limits);

  const WorkerSpec spec;
  const std::string name;
  const uint64_t id;  // of the name, not 0
  Counter n_given, n_failures;
  std::atomic<int64_t> progressed_ns{0};  // when a byte of an answer of its last came
  std::atomic<bool> being_probed{false}, being_weighed{false};
  std::atomic<bool> tells_load{true};       // false: it was asked for its load and did not say it
  std::atomic<int64_t> silent_until_ns{0};  // about tokens of prompts: it is not asked for them until then
  std::atomic<uint32_t> n_unsaid{0};        // such questions in a row that came to nothing
  std::atomic<uint32_t> n_downs{0};         // how often it went down, or could not be reached
  std::atomic<bool> is_ours{false};  // it is a `quire serve`, by its own word: it says at /ready whether it takes more
  int64_t next_probe_ns = 0, next_list_ns = 0;  // of the prober alone
  std::string unreached;                        // likewise: why it could not be reached the last time

  // Guarded by the fleet.
  WorkerHealth health;
  bool gone = false;  // no longer of the fleet
  size_t place = 0;   // among its workers
  // Its number in the prefix map, 0: none. Another one once it was down, for then it holds nothing.
  uint64_t holder = 0;
  int64_t load_tokens = 0, n_requests = 0;
  int64_t prefill_tokens = 0, n_decoding = 0;  // as WorkerView has them
  double token_ns = 0;                         // likewise
  WorkerLoad others;                           // what other routers gave it, as they said last
  // What nobody told us of, by the worker's own word: as it counts, and the means that it is made of; negative: no
  // word.
  WorkerLoad unseen;
  double mean_unseen = -1, mean_unseen_waiting = 0;
  Json::Array models;               // entries of its /v1/models
  std::vector<uint32_t> model_ids;  // the fleet's numbers of their names
  bool serves(uint32_t model) const;
};

// What a worker has to do for one request, in tokens: all, and until its answer begins; `ahead` with what it had to do
// before that. Plain values.
struct Charge {
  int64_t tokens = 0, prefill_tokens = 0, ahead_tokens = 0;
  int64_t n_requests = 1;  // as RouteAsk has it
};

// A charge, from the moment when the worker was chosen until this goes. Any thread, one at a time.
class LoadLease {
 public:
  LoadLease() = default;
  LoadLease(std::shared_ptr<class Fleet> fleet, std::shared_ptr<Worker> worker, const Charge& charge)
      : fleet_(std::move(fleet)), worker_(std::move(worker)), charge_(charge) {}
  LoadLease(LoadLease&& other) noexcept { swap(other); }
  LoadLease& operator=(LoadLease&& other) noexcept {
    LoadLease old(std::move(*this));
    swap(other);
    return *this;
  }
  ~LoadLease();
  // The first token of its answer came, so long after it was sent. Once counts.
  void begins(int64_t after_ns);

 private:
  void swap(LoadLease& other) noexcept {
    std::swap(fleet_, other.fleet_);
    std::swap(worker_, other.worker_);
    std::swap(charge_, other.charge_);
    std::swap(has_begun_, other.has_begun_);
  }
  std::shared_ptr<class Fleet> fleet_;
  std::shared_ptr<Worker> worker_;
  Charge charge_;
  bool has_begun_ = false;
};

}  // namespace quire
