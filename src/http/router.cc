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

constexpr const char* kInvalid = "invalid_request_error";

Verdict refuse(HttpError error, HttpHeaders extra = {}) {
  return {[error = std::move(error), extra = std::move(extra)](HttpRequest&& request, const ReplyPtr& reply) {
            send_error(*reply, error, extra, request.path);
          },
          false};
}

Verdict just_allow(const std::string& allow) {
  return {[allow](HttpRequest&&, const ReplyPtr& reply) { reply->send(204, {{"Allow", allow}}, ""); }, false};
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

void Router::answer(std::string_view method, std::string_view path, Verdict::Answer answer) {
  add(method, path, [answer = std::move(answer)](const HttpRequest&) { return Verdict{answer}; });
}

Verdict Router::judge(const HttpRequest& head) {
  if (head.path == "*") return just_allow("GET, HEAD, POST, OPTIONS");
  const Methods* methods = find(head.path);
  if (methods == nullptr) return refuse({404, "no such path: " + head.path, kInvalid, "", "unknown_path"});
  auto route = methods->find(head.method);
  if (route == methods->end() && head.method == "HEAD") route = methods->find("GET");
  if (route != methods->end()) return route->second(head);
  const std::string allow = allowed(*methods);
  if (head.method == "OPTIONS") return just_allow(allow);
  return refuse({405, "method " + head.method + " is not allowed for " + head.path + "; allowed: " + allow, kInvalid,
                 "", "method_not_allowed"},
                {{"Allow", allow}});
}

}  // namespace quire
