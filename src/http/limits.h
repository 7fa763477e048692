// Every limit of this room, with its default: the one table. Times are in milliseconds. The error that a limit causes
// names it and its value. Plain values, read-only once the server has started.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct HttpLimits {
  struct PathBody {
    std::string path;  // exact decoded path
    int64_t bytes;
  };
  int64_t header_bytes = 16 << 10;  // request line and header fields, also trailers
  int n_headers = 100;
  int64_t url_bytes = 8 << 10;
  int64_t body_bytes = 8 << 20;
  std::vector<PathBody> path_body_bytes;  // overrides of body_bytes
  int header_timeout_ms = 10'000;         // from the first byte of a request to the end of its head
  int body_timeout_ms = 10'000;           // without a single body byte
  int64_t body_bytes_per_s = 4 << 10;     // slower than this over body_timeout_ms: 408
  int64_t all_body_bytes = 256 << 20;     // of all connections: bodies, heads and pipelined bytes that are held
  int idle_timeout_ms = 75'000;           // between requests, and before the first
  int linger_ms = 2'000;                  // after the last answer: time for the client to read it and close
  int n_connections = 8192;               // above: 503 and close
  int n_connections_per_address = 4096;   // of them, from one IPv4 address or IPv6 /64; above: 429; 0: no limit
  int64_t out_bytes = 1 << 20;            // unsent bytes of one stream; above it is stalled
  int64_t all_out_bytes = 256 << 20;      // of all connections
  int64_t out_bytes_per_s = 1 << 10;  // a stalled stream that is read slower than this over stall_timeout_ms: closed
  int send_buffer_bytes = 256 << 10;  // the kernel's, per connection; 0: the system's own tuning
  int stall_timeout_ms = 10'000;      // stalled, and nothing read: closed
  int write_timeout_ms = 60'000;      // unsent bytes below out_bytes and no progress this long: closed
};

struct HttpLimitRow {
  std::string_view name;
  int64_t HttpLimits::* wide;  // one of the two is null
  int HttpLimits::* narrow;
  std::string_view what;
  int64_t value(const HttpLimits& limits) const { return wide != nullptr ? limits.*wide : limits.*narrow; }
};
// One row per number above, in their order.
std::span<const HttpLimitRow> http_limit_rows();
// Whether they fit together. Fails (Code::invalid) naming two that do not.
Status check_limits(const HttpLimits& limits);

}  // namespace quire
