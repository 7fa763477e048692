// Asking another server from an io thread: one exchange at a time over a kept connection, its answer as it comes. The
// one idea: the exchange lives on the io thread of the client that it is for, so both halves of a stream that passes
// through are in one event loop, and who cannot take more bytes stops the reading of them. HTTP/1.1, over TLS where
// the address says so. The blocking client of tests and tools is http/client.h.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/limits.h"
#include "http/message.h"

namespace quire {

class TlsTrust;

struct UpstreamAddress {
  std::string host;
  int port = 80;
  std::string tls_name = {};  // over TLS, with a certificate of this host's name or address; empty: without TLS
  // host:port, an IPv6 address in brackets.
  std::string text() const {
    const bool v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }
  auto operator<=>(const UpstreamAddress&) const = default;
};

// Of an exchange. Times in milliseconds; `http` bounds the answer's head (header_bytes, n_headers).
struct UpstreamLimits {
  int connect_ms = 2'000;       // to find the host and to connect, over TLS to agree too
  int first_byte_ms = 600'000;  // from the request's last byte to the first of the answer
  int stall_ms = 120'000;       // without a byte of an answer that has begun, or of a request that is being sent
  int total_ms = 0;             // from its beginning to the last byte of the answer; 0: as long as it takes
  int dead_ms = 30'000;         // without a sign of life from the other machine, whatever is waited for
  int kept_ms = 30'000;         // a connection without an exchange
  int n_kept = 64;              // such connections to one address, for each io thread
  HttpLimits http;
  std::shared_ptr<const TlsTrust> trust;  // of servers over TLS; null: none of them can be asked
};

struct UpstreamRequest {
  UpstreamAddress to;
  std::string method = "GET", target = "/";
  HttpHeaders headers;                      // without Host, Connection, Content-Length and Transfer-Encoding: added
  std::shared_ptr<const std::string> body;  // null: none
};

struct UpstreamHead {
  int status = 0;
  HttpHeaders headers;          // names in lower case, none that is of the connection alone
  int64_t content_length = -1;  // −1: not stated
};

// unreached: no connection came about, or one to nobody who is trusted; the request was not sent. cut: the connection
// ended too early. timeout: a limit of time passed. malformed: no HTTP as we read it, or a head over its limits.
enum class UpstreamFault : uint8_t { unreached, cut, timeout, malformed };
struct UpstreamError {
  UpstreamFault fault = UpstreamFault::cut;
  std::string message;  // names the limit, not the server
};

// Who asks. Called on the io thread, and kept until the last call.
class UpstreamEvents {
 public:
  virtual ~UpstreamEvents() = default;
  virtual void on_head(UpstreamHead&& head) = 0;
  // Some of the body. False: there is no room; the same bytes come again after Upstream::resume().
  virtual bool on_body(std::string_view bytes) = 0;
  // Once, and nothing follows; null: the answer was complete.
  virtual void on_end(const UpstreamError* error) = 0;
};

// One exchange. Io thread only; whoever lets go of it changes nothing.
class Upstream {
 public:
  virtual ~Upstream() = default;
  // Closes the connection at once: the server learns that nobody listens. None of the events comes after it.
  virtual void cancel() = 0;
  // There is room again.
  virtual void resume() = 0;
};

// REQUIRES the caller is on an io thread of a Server that has not stopped, and `limits` outlives the exchange. The
// first event comes after the return. A kept connection that turns out to be closed before a byte of the answer came is
// replaced, once.
std::shared_ptr<Upstream> ask_upstream(UpstreamRequest request,
                                       const UpstreamLimits& limits,
                                       std::shared_ptr<UpstreamEvents> events);

// Whether a field of a request or an answer is of one connection alone (RFC 9110, 7.6.1): by its name, or because
// `connection`, the value of that field or empty, names it. REQUIRES a lower-case name.
bool is_hop_field(std::string_view name, std::string_view connection);
// The value of the field Connection, however many times it is there. REQUIRES lower-case names.
std::string connection_fields(const HttpHeaders& headers);

}  // namespace quire
