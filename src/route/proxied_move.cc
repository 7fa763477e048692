// A stream whose worker failed goes on at another one that says the same (portions.h), or ends with an error.
#include <algorithm>
#include <utility>

#include "base/nanoseconds.h"
#include "route/proxied.h"

namespace quire {
namespace {

constexpr std::string_view kMoving[] = {"/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/responses",
                                        "/v1/messages",         "/api/chat",         "/api/generate",   "/generate",
                                        "/completion",          "/completions",      "/infill"};
constexpr size_t kMostTried = 4;  // workers that would not say the same, and as many that could not be reached
constexpr int64_t kLeastPauseMs = 250, kMostPauseMs = 1000;

}  // namespace

// Of requests whose streams our servers can hand over; a client's own word for how an answer began stands as it is.
bool Proxied::asks_for_handover() const {
  if (context_.limits.n_moves == 0 || request_.method != "POST") return false;
  if (std::ranges::find(kMoving, request_.path) == std::end(kMoving)) return false;
  return request_.header("x-quire-resumable") == nullptr && body_->find("\"handover\"") == std::string::npos;
}

// The head of a worker's answer that is to go on behind another's. Where nothing was told yet, any stream will do.
// `rest_ms`: that it asks for.
void Proxied::go_on_streaming(int64_t rest_ms) {
  const auto is_stream = [&](const HttpHeader& h) { return h.name == "content-type" && form_of(&h.value) == marked_; };
  const bool streams = head_.status == 200 && std::any_of(head_.headers.begin(), head_.headers.end(), is_stream);
  const auto ticket = std::find_if(head_.headers.begin(), head_.headers.end(),
                                   [](const HttpHeader& h) { return h.name == kHandoverHeader; });
  const bool known = ticket != head_.headers.end();
  if (streams && (told_.any() ? known && ticket->value == ticket_ : true)) {
    phase_ = Phase::streaming;
    may_move_ = known;
    if (known) ticket_ = ticket->value;
    if (response_) pin(*response_);
    pause_ms_ = 0;
    return;
  }
  const auto refusing = std::exchange(upstream_, nullptr);
  load_ = {};
  const HttpError error =
      bad_worker("it cannot go on with a stream of another worker: it answered " + std::to_string(head_.status));
  const bool is_busy = head_.status == 429 || head_.status == 503;
  if (is_busy) rest_ms_ = std::min(rest_ms_, rest_ms);
  if (!go_on_elsewhere(is_busy ? Lost::busy : Lost::refused)) break_off(error);
  refusing->cancel();
}

// False: it cannot go on. Only a worker that failed is a reason to wait anew, and one to think that it is the request
// which ends workers.
bool Proxied::go_on_elsewhere(Lost why) {
  if (!may_move_) return false;
  // Nobody else has what stands before the request, and who had it has failed before it told that.
  if (why == Lost::failed && ask_.pinned && !told_.has_past()) return false;
  held_.clear();
  held_lease_.resize(told_.n_bytes());
  if (!told_.any()) forget_response();
  if (told_.has_past()) {
    ask_.pinned = false;
    ask_.session.reset();
  }
  if (why == Lost::refused) refused_.push_back(worker_);
  if (refused_.size() >= kMostTried) return false;
  if (why == Lost::failed) {
    if (n_moves_++ >= context_.limits.n_moves) return false;
    context_.counters.moved_streams.add();
    tried_ = refused_;
    tried_.push_back(worker_);
    wait_anew();
  }
  phase_ = Phase::looking;
  auto picked = tried_.size() < 2 * kMostTried ? context_.fleet->choose(ask_, tried_) : std::nullopt;
  if (picked) {
    send(std::move(*picked));
    return true;
  }
  tried_.clear();
  if (why == Lost::busy) pause();
  look();
  return true;
}

// Before all that are busy are asked again: twice as long each time, or as they say. Once more they are asked before
// the time is over.
void Proxied::pause() {
  const int64_t now = context_.clock.now_ns();
  pause_ms_ = std::clamp(2 * pause_ms_, kLeastPauseMs, kMostPauseMs);
  const int64_t until = now + std::max(pause_ms_, std::exchange(rest_ms_, kMostRestMs)) * kNsPerMs;
  const int64_t last = wait_until_ns_ - kLeastPauseMs * kNsPerMs;
  pause_until_ns_ = std::min(until, std::max(now + kLeastPauseMs * kNsPerMs, last));
}

// After the head was sent.
void Proxied::break_off(const HttpError& error) {
  context_.counters.failures.add();
  context_.counters.cut_streams.add();
  engine_lease_ = {};
  std::string tail = error_tail(form_, error, error_form(request_.path));
  if (!tail.empty()) return end_stream(std::move(tail));
  phase_ = Phase::over;
  reply_->abort();
}

}  // namespace quire
