// Where a server is, as people write it: "http://host:port/base", or https for TLS with a certificate of this host. The
// scheme (http), the port (80, 443) and an ending /v1 may be left out; an IPv6 address stands in brackets. A plain
// value; nothing is looked up.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/upstream.h"

namespace quire {

struct ServerUrl {
  UpstreamAddress at;
  std::string base;  // what stands before /v1, without a slash at its end
};
// Fails (Code::invalid) with what is wrong, without the URL: another scheme; no host; a port that is none; a blank, a
// control character, '@', '?' or '#'.
Result<ServerUrl> parse_server_url(std::string_view url);

// A port in digits alone, 1 to 65535; nullopt: it is none.
std::optional<int> read_port(std::string_view digits);

}  // namespace quire
