// Asks every worker for its health, what it has to do and, less often, its models; wakes and ends requests that wait
// for a worker. One thread that only tells io threads what to ask.
#pragma once
#include <string>

#include "base/sweeper.h"
#include "http/server.h"
#include "route/context.h"
#include "route/raised_flag.h"

namespace quire {

class Prober {
 public:
  // `context` and `server` outlive it; `context` also what `server` runs. `health_path` empty: /ready of our own
  // servers, which says at once when one is to end, and /health of others.
  Prober(RouteContext& context, Server& server, std::string health_path);

 private:
  void sweep();
  void ask(const std::shared_ptr<Worker>& worker, bool models, const RaisedFlag& flag);
  void weigh(const std::shared_ptr<Worker>& worker, const RaisedFlag& flag);

  RouteContext& context_;
  Server& server_;
  const std::string health_path_;
  ReplicaEstimate replicas_;  // of the sweeper's thread
  Sweeper sweeper_;           // last: it uses the others
};

}  // namespace quire
