// What this room holds for clients.
#include "base/held_memory.h"

#include "http/byte_budget.h"
#include "http/connection.h"
#include "http/limits.h"
#include "http/tls_bytes.h"

namespace quire {
namespace {

std::vector<HeldRow> rows() {
  const HttpLimits l;
  const int64_t n = l.n_connections;
  constexpr int64_t connection = sizeof(Connection) + sizeof(Stream) + sizeof(Address);
  constexpr int64_t tls = kTlsSessionBytes + kMaxTlsTalk + kTlsRecordBytes;
  return {
      {.what = "heads, bodies and pipelined bytes being read, and bodies of requests that wait",
       .of_request = {"body_bytes", l.body_bytes},
       .of_connection = {"body_bytes + 64 KiB ahead", l.body_bytes + (64 << 10)},
       .in_all = {"all_body_bytes + 3 × 4 KiB × n_connections", l.all_body_bytes + 3 * kFreeBytes * n},
       .test = "ServerMemory.BodiesBeyondTheBudgetAreRefusedAndSmallOnesServed"},
      {.what = "events of streams that are not with the kernel yet",
       .of_request = {"out_bytes", l.out_bytes},
       .of_connection = {"out_bytes", l.out_bytes},
       .in_all = {"all_out_bytes + 4 KiB × n_connections", l.all_out_bytes + kFreeBytes * n},
       .test = "ServerMemory.UnsentAnswersAreBoundedInAll"},
      {.what = "connections themselves",
       .of_connection = {"a connection, a reply, an address", connection},
       .in_all = {"… × n_connections", connection * n},
       .test = "ServerLimits.ConnectionsOverTheLimitGet503"},
      {.what = "TLS: sessions, and what they have to say that is not read",
       .of_connection = {"64 KiB + 32 KiB + a record", tls},
       .in_all = {"… × n_connections", tls * n},
       .test = "ServerTls.WhoMakesTlsTalkAndReadsNothingIsHeldBack"},
      {.what = "sent bytes that the kernel holds (twice what it is asked for)",
       .of_connection = {"2 × send_buffer_bytes", 2 * l.send_buffer_bytes},
       .in_all = {"2 × send_buffer_bytes × n_connections", 2 * l.send_buffer_bytes * n},
       .test = "ServerStream.AClientThatReadsNothingIsCutAfterTheStallTimeout"},
  };
}

QR_REGISTER(HeldRows, "http", rows);

}  // namespace
}  // namespace quire
