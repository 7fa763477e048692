#include "serve/resumable_stream.h"

#include <algorithm>

#include "base/sha256.h"
#include "http/sse.h"

namespace quire {
namespace {

constexpr std::string_view kEventEnd = "\n\n";

bool is_event_stream(const HttpHeaders& headers) {
  return std::any_of(headers.begin(), headers.end(), [](const HttpHeader& h) {
    return equal_no_case(h.name, "content-type") && h.value.starts_with("text/event-stream");
  });
}

}  // namespace

ResumableStream::ResumableStream(StreamName name, ReplyPtr first, int64_t kept_bytes)
    : name_(std::move(name)), kept_bytes_(kept_bytes), inner_(std::move(first)) {}

void ResumableStream::open() { attach(current()); }

ReplyPtr ResumableStream::current() const {
  const std::lock_guard lock(mu_);
  return inner_;
}

// What the inner reply holds must not own us: it would keep us, and we keep it.
void ResumableStream::attach(const ReplyPtr& next) {
  int64_t generation = 0;
  {
    const std::lock_guard lock(mu_);
    inner_ = next;
    generation = ++generation_;
  }
  next->on_close([weak = weak_from_this(), generation](CloseReason reason) {
    if (const auto self = weak.lock()) self->on_inner_close(generation, reason);
  });
  next->set_producer([weak = weak_from_this(), generation](Reply&) {
    if (const auto self = weak.lock()) self->run(generation);
  });
}

void ResumableStream::run(int64_t generation) {
  const std::lock_guard running(running_);
  Producer producer;
  {
    const std::lock_guard lock(mu_);
    if (generation != generation_) return;
    producer = producer_;
  }
  if (producer) producer(*this);
}

void ResumableStream::on_inner_close(int64_t generation, CloseReason reason) {
  {
    const std::lock_guard lock(mu_);
    if (generation != generation_) return;  // another connection has it
    inner_ = nullptr;
    const bool may_come_back = streams_ && !given_up_ && !aborted_ && !complete_;
    if (may_come_back && reason == CloseReason::client_gone) return;
    if (given_up_ && !aborted_ && reason == CloseReason::aborted) reason = CloseReason::client_gone;  // cancel() cut it
  }
  tell_closed(reason);
}

void ResumableStream::tell_closed(CloseReason reason) {
  Closed fn;
  {
    const std::lock_guard lock(mu_);
    if (told_) return;
    told_ = true;
    fn = std::move(on_close_);
    producer_ = nullptr;
  }
  if (fn) fn(reason);
}

void ResumableStream::add_header(std::string_view name, std::string_view value) {
  if (const ReplyPtr inner = current()) inner->add_header(name, value);
}

bool ResumableStream::send(int status, HttpHeaders headers, std::string body) {
  const ReplyPtr inner = current();
  return inner != nullptr && inner->send(status, std::move(headers), std::move(body));
}

bool ResumableStream::start_stream(int status, HttpHeaders headers) {
  ReplyPtr inner;
  {
    const std::lock_guard lock(mu_);
    streams_ = is_event_stream(headers);
    inner = inner_;
  }
  if (is_event_stream(headers)) {
    headers.push_back({std::string(kStreamHeader), name_.id});
    if (!name_.secret.empty()) headers.push_back({std::string(kStreamSecretHeader), name_.secret});
  }
  return inner != nullptr && inner->start_stream(status, std::move(headers));
}

// "id: 7\n" before each event. REQUIRES whole events, which is what writers write.
std::string ResumableStream::number(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find(kEventEnd), bytes.size() - kEventEnd.size()) + kEventEnd.size();
    std::string event = "id: " + std::to_string(n_events_ + 1) + "\n";
    event += bytes.substr(0, end);
    bytes.remove_prefix(end);
    out += event;
    const auto n_bytes = static_cast<int64_t>(event.size());
    log_.push_back(std::move(event));  // from here on nothing takes memory
    ++n_events_;
    log_bytes_ += n_bytes;
  }
  while (log_bytes_ > kept_bytes_ && !log_.empty()) {
    log_bytes_ -= static_cast<int64_t>(log_.front().size());
    log_.pop_front();
  }
  return out;
}

// Bytes that the connection has no room for are not numbered: they come again.
bool ResumableStream::write(std::string_view bytes) {
  const std::lock_guard lock(mu_);
  if (!streams_) return inner_ != nullptr && inner_->write(bytes);
  if (complete_ || aborted_) return false;
  if (inner_ != nullptr && !inner_->closed()) {
    if (!inner_->write({})) return false;
    inner_->write(number(bytes));  // a connection that closes just now has missed them
    return true;
  }
  number(bytes);
  return true;
}

void ResumableStream::end() {
  ReplyPtr inner;
  {
    const std::lock_guard lock(mu_);
    complete_ = true;
    inner = inner_;
  }
  if (inner != nullptr) return inner->end();
  tell_closed(CloseReason::finished);
}

void ResumableStream::abort() {
  ReplyPtr inner;
  {
    const std::lock_guard lock(mu_);
    aborted_ = true;
    inner = inner_;
  }
  if (inner != nullptr) return inner->abort();
  tell_closed(CloseReason::aborted);
}

void ResumableStream::set_producer(Producer fn) {
  {
    const std::lock_guard lock(mu_);
    producer_ = std::move(fn);
  }
  notify();
}

void ResumableStream::notify() {
  if (const ReplyPtr inner = current()) inner->notify();
}

void ResumableStream::on_close(Closed fn) {
  const std::lock_guard lock(mu_);
  on_close_ = std::move(fn);
}

void ResumableStream::post(std::function<void()> fn) {
  if (const ReplyPtr inner = current()) inner->post(std::move(fn));
}

void ResumableStream::flush() {
  if (const ReplyPtr inner = current()) inner->flush();
}

bool ResumableStream::closed() const {
  const std::lock_guard lock(mu_);
  return told_;
}

int64_t ResumableStream::unsent_bytes() const {
  const ReplyPtr inner = current();
  return inner != nullptr ? inner->unsent_bytes() : 0;
}

bool ResumableStream::detached() const {
  const std::lock_guard lock(mu_);
  return inner_ == nullptr;
}

bool ResumableStream::over() const {
  const std::lock_guard lock(mu_);
  return complete_ || aborted_ || told_;
}

void ResumableStream::give_up() {
  {
    const std::lock_guard lock(mu_);
    given_up_ = true;
    if (inner_ != nullptr) return;
  }
  tell_closed(CloseReason::client_gone);
}

void ResumableStream::cancel() {
  give_up();
  if (const ReplyPtr inner = current()) inner->abort();
}

std::optional<HttpError> ResumableStream::resume(int64_t after, const ReplyPtr& next) {
  const std::lock_guard running(running_);  // the connection that had it produces no more
  ReplyPtr before;
  std::string missed;
  bool over = false;
  {
    const std::lock_guard lock(mu_);
    if (!streams_) return HttpError{404, "the answer was no event stream", "not_found_error", "", "stream_not_found"};
    const int64_t n_forgotten = n_events_ - static_cast<int64_t>(log_.size());
    if (after < n_forgotten || after > n_events_)
      return HttpError{410,
                       "of the stream's events " + std::to_string(n_forgotten + 1) + " to " +
                           std::to_string(n_events_) + " are kept: it cannot go on behind " + std::to_string(after),
                       "invalid_request_error", "last-event-id", "event_not_kept"};
    for (auto i = static_cast<size_t>(after - n_forgotten); i < log_.size(); ++i) missed += log_[i];
    before = std::move(inner_);
    inner_ = nullptr;
    ++generation_;
    over = complete_;
  }
  if (before != nullptr) before->abort();
  try {
    go_on(next, missed, over);
  } catch (const std::exception&) {
    let_go(next);
    throw;
  }
  return std::nullopt;
}

void ResumableStream::go_on(const ReplyPtr& next, std::string_view missed, bool over) {
  HttpHeaders headers = sse_headers();
  headers.push_back({std::string(kStreamHeader), name_.id});
  next->start_stream(200, std::move(headers));
  next->write(missed);
  if (over)
    next->end();
  else
    attach(next);
}

// Where there is no memory to go on with it the stream waits for whoever takes it up next.
void ResumableStream::let_go(const ReplyPtr& next) {
  const std::lock_guard lock(mu_);
  if (inner_ != next) return;
  inner_ = nullptr;
  ++generation_;  // what next was told to do is nobody's any more
}

bool StreamTable::add(const std::shared_ptr<ResumableStream>& stream) {
  expire();
  const std::lock_guard lock(mu_);
  if (closing_ || !has_room(stream->name().asker.tenant)) return false;
  entries_.push_back({stream, 0});
  return true;
}

// Those that are over are dropped, which nobody hears: their sessions have ended.
bool StreamTable::has_room(uint64_t tenant) {
  const auto is_own = [&](const Entry& e) { return e.stream->name().asker.tenant == tenant; };
  auto n_own = static_cast<int64_t>(std::count_if(entries_.begin(), entries_.end(), is_own));
  const auto full = [&] { return n_own >= max_each_ || static_cast<int64_t>(entries_.size()) >= max_streams_; };
  for (auto it = entries_.begin(); it != entries_.end() && full();) {
    if (is_own(*it) && it->stream->over()) {
      it = entries_.erase(it);
      --n_own;
    } else {
      ++it;
    }
  }
  return !full();
}

std::shared_ptr<ResumableStream> StreamTable::find(std::string_view id, const Asker& asker, std::string_view secret) {
  expire();
  const std::lock_guard lock(mu_);
  for (Entry& entry : entries_) {
    const StreamName& name = entry.stream->name();
    if (name.id != id || name.asker.owner != asker.owner) continue;
    if (!asker.origin.empty() && asker.origin != name.asker.origin) continue;
    if (!name.secret.empty() && !same_digest(sha256(secret), sha256(name.secret))) continue;
    entry.until_ns = 0;
    return entry.stream;
  }
  return nullptr;
}

void StreamTable::erase(const ResumableStream& stream) {
  const std::lock_guard lock(mu_);
  entries_.remove_if([&](const Entry& entry) { return entry.stream.get() == &stream; });
}

void StreamTable::expire() {
  for (const auto& one : take_old()) one->give_up();
}

int64_t StreamTable::size() const {
  const std::lock_guard lock(mu_);
  return static_cast<int64_t>(entries_.size());
}

std::list<std::shared_ptr<ResumableStream>> StreamTable::take_old() {
  std::list<std::shared_ptr<ResumableStream>> out;
  const std::lock_guard lock(mu_);
  const int64_t now = patience_.look();
  for (auto it = entries_.begin(); it != entries_.end();) {
    const bool detached = it->stream->detached();
    if (!detached) it->until_ns = 0;
    if (detached && it->until_ns == 0) it->until_ns = now + keep_ns_;
    if (detached && it->until_ns <= now) {
      out.push_back(it->stream);
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
  return out;
}

void StreamTable::give_up_all() {
  std::list<Entry> all;
  {
    const std::lock_guard lock(mu_);
    closing_ = true;
    all.swap(entries_);
  }
  for (const Entry& entry : all) entry.stream->give_up();
}

}  // namespace quire
