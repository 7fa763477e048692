// Exact paths first, then the longest "/*" prefix, walking up one segment at a time.
#include "http/router.h"

#include "base/check.h"

namespace quire {
namespace {

std::string allowed(const std::map<std::string, Router::Route, std::less<>>& methods) {
  std::string out = "OPTIONS";
  for (const auto& entry : methods) out += ", " + entry.first;
  if (methods.contains("GET")) out += ", HEAD";
  return out;
}

}  // namespace

void Router::add(std::string_view method, std::string_view path, Route route) {
  const bool below = path.size() >= 2 && path.substr(path.size() - 2) == "/*";
  auto& table = below ? below_ : exact_;
  Methods& methods = table[std::string(below ? path.substr(0, path.size() - 1) : path)];
  const bool fresh = methods.emplace(std::string(method), std::move(route)).second;
  QR_CHECK(fresh, "route added twice: " + std::string(path));
}

const Router::Methods* Router::find(std::string_view path) const {
  if (const auto it = exact_.find(path); it != exact_.end()) return &it->second;
  while (!path.empty()) {
    const size_t slash = path.rfind('/', path.size() - 2);  // of "/a/b/" the one before b; npos ends the walk
    if (slash == std::string_view::npos || path.size() == 1) return nullptr;
    path = path.substr(0, slash + 1);
    if (const auto it = below_.find(path); it != below_.end()) return &it->second;
  }
  return nullptr;
}

void Router::handle(HttpRequest&& request, ReplyPtr reply) {
  if (request.path == "*") {
    reply->send(204, {{"Allow", "GET, HEAD, POST, OPTIONS"}}, "");
    return;
  }
  const Methods* methods = find(request.path);
  if (methods == nullptr) {
    send_error(*reply, {404, "no such path: " + request.path, "invalid_request_error", "", "unknown_path"});
    return;
  }
  auto route = methods->find(request.method);
  if (route == methods->end() && request.method == "HEAD") route = methods->find("GET");
  if (route != methods->end()) return route->second(std::move(request), std::move(reply));
  if (request.method == "OPTIONS") {
    reply->send(204, {{"Allow", allowed(*methods)}}, "");
    return;
  }
  send_error(
      *reply,
      {405, "method " + request.method + " is not allowed for " + request.path + "; allowed: " + allowed(*methods),
       "invalid_request_error", "", "method_not_allowed"},
      {{"Allow", allowed(*methods)}});
}

}  // namespace quire
