// What this room holds for clients.
#include "base/held_memory.h"

#include "http/limits.h"

namespace quire {
namespace {

std::vector<HeldRow> rows() {
  const HttpLimits l;
  const int64_t n = l.n_connections;
  return {
      {.what = "heads being read, and what was sent behind a request that is being answered",
       .of_connection = {"header_bytes", l.header_bytes},
       .in_all = {"header_bytes × n_connections", l.header_bytes * n},
       .test = "RequestParser.KeepsTheLimits"},
      {.what = "bodies being read",
       .of_request = {"body_bytes", l.body_bytes},
       .of_connection = {"body_bytes", l.body_bytes},
       .test = "ServerLimits.BodyOverTheLimitIsAnsweredWhileItIsStillComing"},
      {.what = "events of streams that are not with the kernel yet",
       .of_request = {"out_bytes", l.out_bytes},
       .of_connection = {"out_bytes", l.out_bytes},
       .in_all = {"out_bytes × n_connections", l.out_bytes * n},
       .test = "ServerStream.AProducerIsCalledAgainWhenTheBufferHasDrained"},
      {.what = "sent bytes that the kernel holds (twice what it is asked for)",
       .of_connection = {"2 × send_buffer_bytes", 2 * l.send_buffer_bytes},
       .in_all = {"2 × send_buffer_bytes × n_connections", 2 * l.send_buffer_bytes * n},
       .test = "ServerStream.AClientThatReadsNothingIsCutAfterTheStallTimeout"},
  };
}

QR_REGISTER(HeldRows, "http", rows);

}  // namespace
}  // namespace quire
