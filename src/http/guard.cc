#include "http/guard.h"

#include <algorithm>

namespace quire {
namespace {

constexpr std::string_view kSchemes[] = {"http://", "https://"};

// Nothing, or a colon and digits.
bool is_port(std::string_view text) {
  return text.empty() || (text.front() == ':' && text.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

// "a.example" of "a.example:80"; "::1" of "[::1]:80" and of "::1". Empty for what is no host with perhaps a port.
std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos || !is_port(authority.substr(end + 1))) return {};
    const std::string_view address = authority.substr(1, end - 1);
    return address.find(':') != std::string_view::npos ? address : std::string_view{};  // brackets are for IPv6 only
  }
  const size_t colon = authority.find(':');
  if (colon == std::string_view::npos) return authority;
  if (authority.find(':', colon + 1) != std::string_view::npos) return authority;  // an address without brackets
  return is_port(authority.substr(colon)) ? authority.substr(0, colon) : std::string_view{};
}

// What stands behind the scheme; empty for anything that is no origin of the web.
std::string_view authority_of(std::string_view origin) {
  for (const std::string_view scheme : kSchemes)
    if (origin.size() > scheme.size() && equal_no_case(origin.substr(0, scheme.size()), scheme))
      return origin.substr(scheme.size());
  return {};
}

HttpError forbidden(std::string message, std::string_view code) {
  return {403, std::move(message), "permission_error", "", std::string(code)};
}

}  // namespace

bool is_loopback(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (equal_no_case(host, "localhost") || host == "::1") return true;
  constexpr std::string_view kMapped = "::ffff:";
  if (host.starts_with(kMapped)) host.remove_prefix(kMapped.size());
  const auto is_of_address = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return host.starts_with("127.") && std::all_of(host.begin(), host.end(), is_of_address);
}

bool is_local_client(const HttpRequest& request) {
  return is_loopback(request.peer) && request.header("x-forwarded-for") == nullptr &&
         request.header("forwarded") == nullptr;
}

Status check_origin(std::string_view origin) {
  const std::string_view authority = authority_of(origin);
  const bool plain = !authority.empty() && authority.find_first_of("/?#*@ ") == std::string_view::npos;
  if (origin == "*" || plain) return {};
  return fail(Code::invalid, "an origin is a scheme, a host and perhaps a port, as https://chat.example, or *; got \"" +
                                 shown(origin) + "\"");
}

bool Guard::is_our_host(std::string_view host) const {
  host = host_of(host);
  constexpr std::string_view kBelow = ".localhost";  // always this machine (RFC 6761)
  if (is_loopback(host)) return true;
  if (host.size() > kBelow.size() && equal_no_case(host.substr(host.size() - kBelow.size()), kBelow)) return true;
  return std::any_of(options_.hosts.begin(), options_.hosts.end(),
                     [&](const std::string& name) { return equal_no_case(name, host); });
}

bool Guard::allows_origin(std::string_view origin) const {
  return std::any_of(options_.origins.begin(), options_.origins.end(),
                     [&](const std::string& one) { return one == "*" || equal_no_case(one, origin); });
}

std::optional<HttpError> Guard::check(const HttpRequest& request) const {
  if (!options_.loopback) return std::nullopt;
  const std::string* host = request.header("host");
  if (host != nullptr && !is_our_host(*host))
    return forbidden("this server listens on loopback and is not called '" + shown(*host) + "' (--allow-host)",
                     "host_not_allowed");
  const std::string* origin = request.header("origin");
  if (origin == nullptr || allows_origin(*origin)) return std::nullopt;
  const std::string_view authority = authority_of(*origin);
  if (host != nullptr && !authority.empty() && equal_no_case(authority, *host)) return std::nullopt;
  return forbidden("pages of '" + shown(*origin) + "' may not ask this server (--cors-origin)", "origin_not_allowed");
}

bool Guard::names_allowed_origin(const HttpRequest& request) const {
  const std::string* origin = request.header("origin");
  return origin != nullptr && allows_origin(*origin);
}

bool Guard::is_preflight(const HttpRequest& request) const {
  return request.method == "OPTIONS" && request.header("access-control-request-method") != nullptr &&
         names_allowed_origin(request);
}

void Guard::add_cors(const HttpRequest& request, Reply& reply) const {
  reply.add_header("Access-Control-Allow-Origin", *request.header("origin"));
  reply.add_header("Vary", "Origin");
  reply.add_header("Access-Control-Expose-Headers",
                   "Retry-After, x-quire-resumable, x-quire-route, x-quire-stream, "
                   "x-quire-stream-secret, x-quire-warning, x-quire-worker, x-request-id");
}

void Guard::answer_preflight(const HttpRequest& request, Reply& reply) const {
  const std::string* asked = request.header("access-control-request-headers");
  reply.send(204,
             {{"Access-Control-Allow-Origin", *request.header("origin")},
              {"Vary", "Origin"},
              {"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
              {"Access-Control-Max-Age", "600"},
              {"Access-Control-Allow-Headers", asked != nullptr ? *asked : "Authorization, Content-Type"}},
             "");
}

}  // namespace quire
