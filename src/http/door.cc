#include "http/door.h"

namespace quire {

Verdict Door::judge(const HttpRequest& head) {
  if (const auto error = guard_.check(head))
    return {[this, error = *error](HttpRequest&& request, const ReplyPtr& reply) {
              refused_(error.code);
              send_error(*reply, error, {}, request.path);
            },
            false};
  if (guard_.is_preflight(head))
    return {[this](HttpRequest&& request, const ReplyPtr& reply) { guard_.answer_preflight(request, *reply); }, false};
  Verdict verdict = router_.judge(head);
  if (!guard_.names_allowed_origin(head)) return verdict;
  return {[this, answer = std::move(verdict.answer)](HttpRequest&& request, ReplyPtr reply) {
            guard_.add_cors(request, *reply);
            answer(std::move(request), std::move(reply));
          },
          verdict.reads_body};
}

static void refuse_from_elsewhere(HttpRequest&& request, const ReplyPtr& reply) {
  send_error(*reply, {403, request.path + " answers clients of this machine only (--admin-host, --admin-port)",
                      "permission_error", "", "local_only"});
}

void add_admin_route(Door& door, Door& admin_door, bool own_admin_address, const AdminRoute& route) {
  admin_door.router().add(route.method, route.path, route.route);
  if (own_admin_address) return;
  door.router().add(route.method, route.path, [judge = route.route](const HttpRequest& head) {
    return is_local_client(head) ? judge(head) : Verdict{&refuse_from_elsewhere, false};
  });
}

HttpError wrong_media_type() {
  return {415, "Content-Type must be application/json", "invalid_request_error", "", "unsupported_media_type"};
}

}  // namespace quire
