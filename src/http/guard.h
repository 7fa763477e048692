// Who may speak to this server at all, before any key: pages elsewhere, names that are not ours, machines that are not
// this one. A server on loopback trusts whoever reaches it, and a browser on the same machine reaches it for any page:
// by a name that was pointed here after the page was loaded (DNS rebinding), or by a plain request. Hence a Host that
// is not this machine's is refused there, and an Origin that is not the server's own or allowed. Pure functions over
// the request; any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/server.h"

namespace quire {

struct GuardOptions {
  bool loopback = false;             // the server listens on loopback only
  std::vector<std::string> hosts;    // other names that it may be called by there
  std::vector<std::string> origins;  // pages that may ask from elsewhere, "https://chat.example"; "*": all
};

class Guard {
 public:
  explicit Guard(GuardOptions options) : options_(std::move(options)) {}

  // 403 with the code host_not_allowed or origin_not_allowed; nullopt: go on.
  std::optional<HttpError> check(const HttpRequest& request) const;
  // Whether a page that is allowed asks, and whether it asks only if it may.
  bool names_allowed_origin(const HttpRequest& request) const;
  bool is_preflight(const HttpRequest& request) const;
  // For these pages: the fields of CORS on an answer, and the whole answer to a preflight.
  void add_cors(const HttpRequest& request, Reply& reply) const;
  void answer_preflight(const HttpRequest& request, Reply& reply) const;

 private:
  bool is_our_host(std::string_view host) const;
  bool allows_origin(std::string_view origin) const;

  const GuardOptions options_;
};

// "localhost", 127.0.0.0/8, ::1 and the IPv4 form of it, brackets or not.
bool is_loopback(std::string_view host);
// A client of this machine that nobody else speaks through: a proxy says whom it speaks for.
bool is_local_client(const HttpRequest& request);
// "https://a.example:8443" or "*".
Status check_origin(std::string_view origin);

}  // namespace quire
