// Sends a workload to a server and reports what came back. One thread per request in flight, each with a connection of
// its own. Open loop: one thread at a time leads, which means it sleeps until the next session is due; before it goes
// off to run that session it makes sure that another can lead. A session that finds every thread busy waits, and its
// latency counts from when it was due.
#pragma once
#include <cstdint>
#include <string>

#include "app/load/report.h"
#include "app/load/workload.h"
#include "app/remote.h"
#include "base/json.h"
#include "base/result.h"

namespace quire {

struct GeneratorOptions {
  Remote remote;
  bool chat = true;
  Json fields = Json(Json::Object{});  // of every request's body: model, temperature, …
  int users = 1;                       // closed loop: sessions at once
  int max_in_flight = 4096;            // open loop
  double seconds = 0;                  // closed loop: no session begins later; 0: no limit
  double think_ms = 0;                 // between an answer and the session's next turn
  double leave = 0;                    // share of the requests that are left after a part of the answer, at random
  int timeout_ms = 300'000;            // without a byte
  LoadSlo slo;
  uint64_t seed = 1;
};

// Blocks until every session has ended; SIGINT is the caller's matter. The options must be in range: the command
// checks.
LoadReport run_load(const Workload& workload, const GeneratorOptions& options);

}  // namespace quire
