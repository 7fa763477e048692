// Where workers publish KV events, as the command line says it. Plain values; pure.
#pragma once
#include <string>

#include "base/result.h"

namespace quire {

// Where a worker publishes, and where it answers questions (empty: nowhere): PORT of its own host, HOST:PORT or
// ipc://PATH each. `worker` empty: of every worker that has no other place.
struct EventPlace {
  std::string worker{}, events{}, replay{};
};

// "[WORKER=]EVENTS[,REPLAY]", WORKER as --worker has it. Fails (Code::invalid) naming what is wrong.
Result<EventPlace> parse_event_place(const std::string& text);

// As libzmq writes it.
std::string zmq_address(const std::string& place, const std::string& host);

}  // namespace quire
