// One GET over HTTP or HTTPS at a time, by libcurl, which stays behind this header. Redirects are followed, to HTTPS
// alone from HTTPS; a token goes to the first address's host and port and to no other. Proxies come from libcurl's
// usual environment variables, certificates from the system or SSL_CERT_FILE. Blocking; one thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Whether an answer of this status brings what was asked for.
inline bool is_good(long status) { return status == 200 || status == 206; }

// What a server said; of a chain of redirects the last.
struct HubAnswer {
  int status = 0;
  int64_t content_bytes = -1;              // Content-Length; -1: it did not say
  int64_t range_from = -1, range_of = -1;  // Content-Range: first byte and bytes of the whole; -1: it did not say
  int64_t retry_after_s = -1;              // only when it is a number of seconds
  std::string link, error_message;         // the headers Link and X-Error-Message
};

// Where the bytes of a good answer (200, 206) go.
class HubSink {
 public:
  virtual ~HubSink() = default;
  virtual int64_t from() const = 0;                 // asked for are the bytes from here on
  virtual bool begin(const HubAnswer& answer) = 0;  // before the first byte, or with none; false: not these
  virtual bool take(std::string_view bytes) = 0;    // false: no more
  virtual bool complete() const = 0;                // after the last byte; false: it was cut off
  virtual bool begin_anew() = 0;                    // there is nothing from there on (416); false: then it is over
};

class HubTransfer {
 public:
  // `token` empty: none is sent. Code::unsupported where there is no libcurl.
  static Result<std::unique_ptr<HubTransfer>> open(std::string token);
  ~HubTransfer();
  HubTransfer(const HubTransfer&) = delete;
  HubTransfer& operator=(const HubTransfer&) = delete;

  // An answer of any status; bodies of others than 200 and 206 are dropped. Code::not_found: nobody was reached;
  // Code::io or timeout: cut off; Code::cancelled: by the sink; Code::invalid: trying again would not help.
  Result<HubAnswer> get(const std::string& url, HubSink& sink);

  bool has_token() const { return !token_.empty(); }

 private:
  explicit HubTransfer(std::string token);
  struct State;
  const std::string token_;
  std::unique_ptr<State> state_;
};

}  // namespace quire
