// The router as one object: what the command line, tests and embedders start and stop. Reads nothing but its options.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "http/door_options.h"
#include "route/directory.h"
#include "route/event_place.h"
#include "route/kube_discovery.h"
#include "route/limits.h"
#include "route/local_engines.h"
#include "route/worker.h"

namespace quire {

struct RouteOptions : DoorOptions {
  std::vector<WorkerSpec> workers;    // may be empty: set_workers() brings them
  std::vector<WorkerSpec> names;      // whose host is a name: every address of it is a worker (discovery.h)
  std::vector<KubeService> services;  // every pod of these that is ready is a worker (kube_discovery.h)
  bool workers_enter = false;         // who enters itself in `directory` is a worker (worker_list.h)
  KubeApi kube_api;                   // who is asked for them
  std::string policy = "prefix";      // of route/policies
  std::string worker_key;             // what workers are sent instead of the clients' keys; empty: theirs
  std::string worker_ca;              // PEM file: who is trusted over TLS; empty: whom this machine trusts
  std::vector<EventPlace> events;     // where workers publish KV events; empty: nobody listens to them
  std::string health_path;            // of a worker: good below 500; empty: /ready of ours, /health of others
  DirectoryOptions directory;         // no host: none
  LocalOptions local;                 // engines of this machine, by model; their times and queue are of `limits`
  RouteLimits limits;
};

class RouteServer {
 public:
  virtual ~RouteServer() = default;  // stop(0) if that was not done
  virtual int port() const = 0;
  virtual std::string url() const = 0;
  virtual std::string admin_url() const = 0;  // empty where the operator has no address of their own
  // The workers from now on. One that is not named any more finishes what it has. Any thread.
  virtual void set_workers(const std::vector<WorkerSpec>& workers) = 0;
  // New requests get 503 with Retry-After; running ones may go on for `drain_ms`, then they are cut. Blocks. A second
  // call from another thread with less time cuts the first one short.
  virtual void stop(int64_t drain_ms) = 0;
};

// Listens and routes; ready when it returns. `metrics` outlives the result. Fails (Code::io, Code::invalid) naming host
// and port, the policy, or the file of trusted certificates.
// Workers over TLS need `worker_ca`, or one among `workers` or `names` at the start.
Result<std::unique_ptr<RouteServer>> start_router(const RouteOptions& options, Metrics& metrics);

}  // namespace quire
