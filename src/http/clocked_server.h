// A server whose clients' time is told by a clock that is given: for this room's tests.
#pragma once
#include <memory>

#include "http/server.h"

namespace quire {

class Clock;

// As Server::start. Timeouts are measured by `clock`, which the io threads ask and which outlives the server; null: the
// system's.
Result<std::unique_ptr<Server>> start_server(const ServerOptions& options, Handler& handler, Clock* clock);

}  // namespace quire
