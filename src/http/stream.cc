// Flags: `dirty_` is true while the stream is in its io thread's list; `notified_` asks for a call of the producer.
// take() clears dirty_ first and reads the rest after, so what a thread adds later puts the stream on the list again.
// It clears it for a stream that has left the list only: one that is on it twice would take those between along.
#include "http/stream.h"

#include <exception>
#include <limits>
#include <utility>

#include "base/log.h"
#include "http/error_form.h"

namespace quire {

namespace {

void log_thrown(const char* where, const std::exception& e) noexcept {
  try {
    log_error(std::string("http: ") + where + " threw: " + e.what());
  } catch (const std::exception&) {  // then without a line
  }
}

}  // namespace

std::string_view close_reason_name(CloseReason reason) {
  switch (reason) {
    case CloseReason::finished: return "finished";
    case CloseReason::client_gone: return "client_gone";
    case CloseReason::stalled: return "stalled";
    case CloseReason::aborted: return "aborted";
    case CloseReason::shutdown: return "shutdown";
  }
  return "aborted";
}

bool send_error(Reply& reply, const HttpError& error, HttpHeaders extra, std::string_view path) {
  extra.push_back({"Content-Type", "application/json"});
  return reply.send(error.status, std::move(extra), error_form(path)(error));
}

ReplyPtr Stream::handle_for(const std::shared_ptr<Stream>& stream) {
  return ReplyPtr(stream.get(), [stream](Reply*) { stream->abandon(); });
}

void Stream::mark_dirty() {
  if (!dirty_.exchange(true, std::memory_order_acq_rel)) io_->push(shared_from_this());
}

void Stream::add_header(std::string_view name, std::string_view value) {
  std::lock_guard lock(mu_);
  added_.push_back({std::string(name), std::string(value)});
}

// An answer for which there is no room becomes one that says so.
bool Stream::send(int status, HttpHeaders headers, std::string body) {
  {
    std::lock_guard lock(mu_);
    if (phase_ != Phase::open || closed()) return false;
    if (!lease_.resize(static_cast<int64_t>(body.capacity()))) {
      const HttpError error = no_room(body.size());
      status = error.status;
      headers = {{"Content-Type", "application/json"}, {"Retry-After", "1"}};
      body = error_body(error);
    }
    headers.insert(headers.end(), added_.begin(), added_.end());
    inbox_ = {true, true, status, std::move(headers), std::move(body), true, false};
    phase_ = Phase::complete;
  }
  mark_dirty();
  io_->wake();
  return true;
}

bool Stream::start_stream(int status, HttpHeaders headers) {
  {
    std::lock_guard lock(mu_);
    if (phase_ != Phase::open || closed()) return false;
    headers.insert(headers.end(), added_.begin(), added_.end());
    phase_ = Phase::streaming;
    inbox_.head = true;
    inbox_.status = status;
    inbox_.headers = std::move(headers);
  }
  mark_dirty();
  return true;
}

bool Stream::write(std::string_view bytes) {
  {
    std::lock_guard lock(mu_);
    if (phase_ != Phase::streaming || closed()) return false;
    const int64_t unsent = static_cast<int64_t>(inbox_.body.size()) + queued_.load(std::memory_order_relaxed);
    if (unsent >= out_bytes_) {
      refused_ = true;
      return false;
    }
    const size_t capacity = grown_capacity(inbox_.body, bytes.size(), std::numeric_limits<size_t>::max());
    if (!lease_.resize(static_cast<int64_t>(capacity) + queued_held_)) {
      waits_for_room_.store(true);
      return false;
    }
    grow_to(inbox_.body, capacity);
    inbox_.body += bytes;
  }
  mark_dirty();
  return true;
}

void Stream::end() {
  {
    std::lock_guard lock(mu_);
    if (phase_ != Phase::streaming || closed()) return;
    phase_ = Phase::complete;
    inbox_.complete = true;
  }
  mark_dirty();
}

void Stream::abort() {
  {
    std::lock_guard lock(mu_);
    if (phase_ == Phase::aborted || closed()) return;
    phase_ = Phase::aborted;
    inbox_.aborted = true;
  }
  mark_dirty();
  io_->wake();
}

// Runs where the last ReplyPtr goes: whatever happens, no exception may leave.
void Stream::abandon() noexcept {
  Phase phase;
  {
    std::lock_guard lock(mu_);
    phase = phase_;
  }
  try {
    if (phase == Phase::open)
      send_error(*this, {500, "the request was dropped unanswered", "server_error", "", "dropped"});
    if (phase == Phase::streaming) abort();
  } catch (const std::exception&) {
    abort();  // needs no memory
  }
}

void Stream::set_producer(Producer fn) {
  {
    std::lock_guard lock(mu_);
    if (closed()) return;
    next_producer_ = std::move(fn);
  }
  notify();
}

void Stream::notify() {
  notified_.store(true, std::memory_order_release);
  mark_dirty();
}

void Stream::on_close(Closed fn) {
  CloseReason reason;
  {
    std::lock_guard lock(mu_);
    if (!closed()) {
      on_close_ = std::move(fn);
      return;
    }
    reason = reason_;
  }
  post([fn = std::move(fn), reason] { fn(reason); });
}

void Stream::post(std::function<void()> fn) {
  io_->push(std::move(fn));
  io_->wake();
}

int64_t Stream::unsent_bytes() const {
  std::lock_guard lock(mu_);
  return static_cast<int64_t>(inbox_.body.size()) + queued_.load(std::memory_order_relaxed);
}

void Stream::run_producer() {
  if (!notified_.exchange(false, std::memory_order_acq_rel)) return;
  {
    std::lock_guard lock(mu_);
    if (next_producer_) producer_ = std::move(next_producer_);
    next_producer_ = nullptr;
  }
  if (!producer_) return;
  try {
    producer_(*this);
  } catch (const std::exception& e) {
    abort();
    log_thrown("a producer", e);
  }
}

void Stream::take(StreamOutput& out) {
  run_producer();  // while dirty_ is still set: its writes need no place in the list
  if (std::exchange(popped_, false)) dirty_.exchange(false, std::memory_order_acq_rel);
  run_producer();  // a notify() that came in between
  std::lock_guard lock(mu_);
  out = std::move(inbox_);
  inbox_ = {};
}

void Stream::set_queued(int64_t bytes, int64_t held_bytes) {
  queued_.store(bytes, std::memory_order_relaxed);
  {
    std::lock_guard lock(mu_);
    queued_held_ = held_bytes;
    lease_.set(static_cast<int64_t>(inbox_.body.capacity()) + held_bytes);
    if (bytes > out_bytes_ / 2 || !refused_) return;
    refused_ = false;
  }
  notify();
}

void Stream::retry() {
  if (waits_for_room_.exchange(false)) notify();
}

HttpError Stream::no_room(size_t n_bytes) const {
  return {503,
          "no room for an answer of " + std::to_string(n_bytes) + " bytes beside the others: all together may have " +
              std::to_string(account_->budget().limit()) + " unsent bytes (all_out_bytes)",
          "server_error", "", "no_room"};
}

void Stream::close(CloseReason reason) noexcept {
  Closed fn;
  Producer dropped, dropped_next;
  {
    std::lock_guard lock(mu_);
    if (closed()) return;
    closed_.store(true, std::memory_order_release);
    reason_ = reason;
    fn = std::move(on_close_);
    on_close_ = nullptr;
    dropped = std::move(producer_);
    dropped_next = std::move(next_producer_);
    producer_ = next_producer_ = nullptr;
    inbox_ = {};
    lease_.resize(0);
  }
  connection = nullptr;
  if (!fn) return;
  try {
    fn(reason);
  } catch (const std::exception& e) {
    log_thrown("the end of a reply", e);
  }
}

}  // namespace quire
