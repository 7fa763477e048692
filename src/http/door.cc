#include "http/door.h"

namespace quire {

Verdict Door::judge(const HttpRequest& head) {
  if (const auto error = guard_.check(head))
    return {[this, error = *error](HttpRequest&&, const ReplyPtr& reply) {
              refused_(error.code);
              send_error(*reply, error);
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

}  // namespace quire
