#include "http/limits.h"

#include <algorithm>

namespace quire {
namespace {

constexpr HttpLimitRow kRows[] = {
    {"header_bytes", &HttpLimits::header_bytes, nullptr, "request line and header fields together, also trailers"},
    {"n_headers", nullptr, &HttpLimits::n_headers, "header fields"},
    {"url_bytes", &HttpLimits::url_bytes, nullptr, "the URL"},
    {"body_bytes", &HttpLimits::body_bytes, nullptr, "a request's body"},
    {"header_timeout_ms", nullptr, &HttpLimits::header_timeout_ms,
     "from a request's first byte to the end of its head"},
    {"body_timeout_ms", nullptr, &HttpLimits::body_timeout_ms, "without a byte of the body"},
    {"body_bytes_per_s", &HttpLimits::body_bytes_per_s, nullptr, "slowest body, over body_timeout_ms"},
    {"all_body_bytes", &HttpLimits::all_body_bytes, nullptr,
     "bodies, heads and pipelined requests that are being received or wait to be read, of all connections; one address "
     "may have as much of it as is left"},
    {"idle_timeout_ms", nullptr, &HttpLimits::idle_timeout_ms, "between requests of a connection"},
    {"linger_ms", nullptr, &HttpLimits::linger_ms, "for the client to read the last answer"},
    {"n_connections", nullptr, &HttpLimits::n_connections, "open connections; `--max-connections`"},
    {"n_connections_per_address", nullptr, &HttpLimits::n_connections_per_address,
     "of them from one IPv4 address or IPv6 /64, 0 for no limit; `--max-connections-per-address`"},
    {"out_bytes", &HttpLimits::out_bytes, nullptr, "unsent bytes of one stream before it counts as stalled"},
    {"all_out_bytes", &HttpLimits::all_out_bytes, nullptr,
     "unsent bytes of the answers of all connections; those of one address may have as much of it as is left"},
    {"out_bytes_per_s", &HttpLimits::out_bytes_per_s, nullptr,
     "slowest reading of a stalled stream, over stall_timeout_ms"},
    {"send_buffer_bytes", nullptr, &HttpLimits::send_buffer_bytes, "the kernel's, of one connection"},
    {"stall_timeout_ms", nullptr, &HttpLimits::stall_timeout_ms, "a stalled stream of which nothing is read"},
    {"write_timeout_ms", nullptr, &HttpLimits::write_timeout_ms, "unsent bytes without progress"},
};

}  // namespace

std::span<const HttpLimitRow> http_limit_rows() { return kRows; }

// A body that grows is there twice for a moment, and one address gets half of the budget.
Status check_limits(const HttpLimits& l) {
  int64_t largest = l.body_bytes;
  for (const auto& over : l.path_body_bytes) largest = std::max(largest, over.bytes);
  if (l.all_body_bytes / 4 >= largest) return {};
  return fail(Code::invalid, "all_body_bytes is " + std::to_string(l.all_body_bytes) +
                                 ": it must be at least four times the largest body_bytes, which is " +
                                 std::to_string(largest));
}

}  // namespace quire
