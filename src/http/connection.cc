#include "http/connection.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <exception>
#include <new>

#include "base/log.h"
#include "base/nanoseconds.h"
#include "http/response_head.h"
#include "http/tls_bytes.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr size_t kMaxAhead = 64 << 10;      // pipelined bytes kept while a reply is under way; then reading pauses
constexpr size_t kBytesPerTurn = 16 << 10;  // read, and taken to pieces
constexpr int kRequestsPerTurn = 4;

bool is_over(int64_t since, int timeout_ms, int64_t now) { return now - since > int64_t{timeout_ms} * kNsPerMs; }

HttpError handler_threw() { return {500, "the request could not be handled", "server_error", "", "internal"}; }

}  // namespace

Connection::Connection(IoThread& io, tcp::socket socket, Arrival& arrival)
    : io_(io),
      socket_(std::move(socket)),
      place_(std::move(arrival.place)),
      peer_(std::move(arrival.peer)),
      parser_(io.shared().limits),
      received_(place_.address()->received),
      ahead_(place_.address()->received),
      tls_(io.shared().tls != nullptr ? TlsSession::open(*io.shared().tls) : nullptr),
      outbox_(tls_.get()) {}

void Connection::start(Reject reject) {
  if (io_.shared().tls != nullptr && tls_ == nullptr) return close(CloseReason::aborted);  // no memory
  error_code ec;  // none of these is needed to serve
  socket_.non_blocking(true, ec);
  socket_.set_option(tcp::no_delay(true), ec);
  socket_.set_option(asio::socket_base::keep_alive(true), ec);
  const int dead_after = limits().write_timeout_ms;  // a peer that acknowledges nothing, or keeps its window shut
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_after, sizeof dead_after);
  if (limits().send_buffer_bytes > 0)
    socket_.set_option(asio::socket_base::send_buffer_size(limits().send_buffer_bytes), ec);
  idle_since_ = patience_ns();
  if (reject == Reject::all_in_use) {
    const std::string limit = std::to_string(limits().n_connections);
    return refuse(
        {503, "all " + limit + " connections (n_connections) are in use", "server_error", "", "too_many_connections"});
  }
  if (reject == Reject::all_of_address) {
    const std::string limit = std::to_string(limits().n_connections_per_address);
    return refuse({429, "all " + limit + " connections of one address (n_connections_per_address) are in use",
                   "rate_limit_error", "", "too_many_connections"});
  }
  arm_read();
}

// Time as this client is held to it: it stands still while what the client said waits for its turn.
int64_t Connection::patience_ns() const { return (waits() ? waits_since_ : io_.patience_ns()) - waited_ns_; }

void Connection::want_turn(bool again) {
  if (!waits()) waits_since_ = io_.patience_ns();
  io_.want_turn(*this, again);
}

void Connection::arm_read() {
  if (reading_ || readable_ || state_ == State::closed || peer_eof_ || paused_) return;
  reading_ = true;
  socket_.async_wait(tcp::socket::wait_read, read_slot_.bind([self = shared_from_this()](error_code) {
    self->reading_ = false;
    if (self->state_ == State::closed) return;
    self->readable_ = true;
    self->want_turn(false);
  }));
}

void Connection::arm_write() {
  if (writing_ || writable_ || state_ == State::closed) return;
  writing_ = true;
  socket_.async_wait(tcp::socket::wait_write, write_slot_.bind([self = shared_from_this()](error_code) {
    self->writing_ = false;
    if (self->state_ == State::closed) return;
    self->writable_ = true;
    self->want_turn(false);
  }));
}

void Connection::take_turn() {
  waited_ns_ += io_.patience_ns() - waits_since_;
  if (std::exchange(writable_, false)) flush_out();
  if (state_ == State::reading && !in_.empty())
    process_ahead();
  else if (std::exchange(readable_, false))
    read_some();
  if (state_ == State::closed) return;
  if (readable_ || (state_ == State::reading && !in_.empty())) want_turn(true);
  if (std::exchange(looks_, false)) hold_to_time(false);
}

void Connection::read_some() {
  auto& scratch = io_.scratch();
  const size_t room = read_room();
  paused_ = room == 0;
  if (paused_) return;
  const ssize_t n = ::recv(socket_.native_handle(), scratch.data(), room, MSG_DONTWAIT);
  if (n == 0) {
    on_eof();
  } else if (n < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return close(CloseReason::client_gone);
    ahead_.set(static_cast<int64_t>(in_.capacity()));  // nothing came for the room that was taken
  } else {
    readable_ = static_cast<size_t>(n) == room;  // there may be more
    io_.shared().metrics->bytes_in.add(static_cast<size_t>(n));
    const std::string_view bytes(scratch.data(), static_cast<size_t>(n));
    if (tls_ != nullptr)
      on_cipher(bytes);
    else
      on_bytes(bytes);
  }
  arm_read();
}

void Connection::on_cipher(std::string_view bytes) {
  std::string plain;
  const TlsSession::State state = tls_->receive(bytes, plain, outbox_.wire());
  if (state != TlsSession::State::failed && !plain.empty()) on_bytes(plain);
  if (state_ != State::closed) flush_out();
  if (state_ == State::closed || state == TlsSession::State::open) return;
  if (state == TlsSession::State::closed && state_ != State::lingering) return on_eof();
  close(CloseReason::client_gone);
}

// How much may be read now: what has to wait for its turn needs a place.
size_t Connection::read_room() {
  if (outbox_.unsent_wire_bytes() > kMaxTlsTalk) return 0;
  const size_t all = std::min(kBytesPerTurn, io_.scratch().size());
  if (state_ == State::lingering || deaf_ || (state_ == State::reading && in_.empty())) return all;
  const size_t held = in_.size() - in_at_;
  if (held >= kMaxAhead) return 0;
  const size_t most = std::min(kMaxAhead - held, all);
  if (ahead_.resize(static_cast<int64_t>(std::max(in_.capacity(), held + most)))) return most;
  return kFreeBytes - std::min<size_t>(kFreeBytes, held);
}

void Connection::keep_ahead(std::string_view bytes) {
  if (in_at_ > 0) in_.erase(0, in_at_);
  in_at_ = 0;
  grow_to(in_, grown_capacity(in_, bytes.size(), kMaxAhead));
  in_ += bytes;
  ahead_.set(static_cast<int64_t>(in_.capacity()));
}

void Connection::on_bytes(std::string_view bytes) {
  if (state_ == State::lingering) n_thrown_ += std::ssize(bytes);
  if (state_ == State::lingering || deaf_) return;
  if (state_ == State::reading && in_.empty()) bytes.remove_prefix(process(bytes));
  if ((state_ == State::reading || state_ == State::handling) && !deaf_ && !bytes.empty()) keep_ahead(bytes);
}

void Connection::on_eof() {
  if (state_ == State::handling) sweep(0);  // an answer that is already there still counts
  if (state_ == State::handling && complete_) {
    peer_eof_ = true;
    return;
  }
  close(CloseReason::client_gone);
}

// Uses bytes up to a request that is not answered at once, or up to kRequestsPerTurn of them. Returns how many.
size_t Connection::process(std::string_view bytes) {
  const size_t all = bytes.size();
  processing_ = true;
  int n_left = kRequestsPerTurn;
  while (!bytes.empty() && state_ == State::reading && n_left > 0)
    if (take_some(bytes)) --n_left;
  processing_ = false;
  return all - bytes.size();
}

// True: a request was complete.
bool Connection::take_some(std::string_view& bytes) {
  const bool fresh = !parser_.started();
  if (fresh) {
    head_since_ = patience_ns();
    answered_ = false;
  }
  if (!received_.resize(parser_.bytes_to_take(bytes.size()))) return refuse_for_room(), true;
  bytes.remove_prefix(parser_.feed(bytes));
  if (!received_.resize(parser_.held_bytes())) return refuse_for_room(), true;
  after_feed(!bytes.empty());
  return !parser_.started();
}

void Connection::process_ahead() {
  std::string ahead = std::move(in_);
  const size_t at = in_at_;
  in_.clear();
  in_at_ = 0;
  const size_t used = at + process(std::string_view(ahead).substr(at, kBytesPerTurn));
  if (used < ahead.size() && !deaf_ && (state_ == State::reading || state_ == State::handling)) {
    in_ = std::move(ahead);
    in_at_ = used;
  }
  ahead_.set(static_cast<int64_t>(in_.capacity()));
  paused_ = false;
  arm_read();
}

// `more`: bytes of the body are already here.
void Connection::after_feed(bool more) {
  if (parser_.state() == RequestParser::State::failed) return refuse(parser_.error());
  if (parser_.state() == RequestParser::State::head) return;
  if (!judged_) judge();
  if (parser_.state() == RequestParser::State::done) return dispatch();
  if (!verdict_.reads_body) {
    deaf_ = true;
    return dispatch();
  }
  note_body();
  if (parser_.body_bytes() > 0 || !parser_.expects_continue() || more) return;
  outbox_.append(std::string_view("HTTP/1.1 100 Continue\r\n\r\n"));
  flush_out();
}

// Each byte of a body buys the time that it takes at the least rate, but never more than body_timeout_ms ahead.
void Connection::note_body() {
  const HttpLimits& l = limits();
  const int64_t now = patience_ns(), most = now + int64_t{l.body_timeout_ms} * kNsPerMs;
  const int64_t n = parser_.body_bytes() - body_seen_;
  if (body_until_ == 0)
    body_until_ = most;
  else
    body_until_ = std::min(most, body_until_ + n * kNsPerSecond / std::max<int64_t>(1, l.body_bytes_per_s));
  if (n > 0 || body_last_ == 0) body_last_ = now;
  body_seen_ = parser_.body_bytes();
}

void Connection::judge() {
  judged_ = true;
  parser_.request().peer = peer_;
  try {
    verdict_ = io_.shared().handler->judge(parser_.request());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    log_error(std::string("http: a handler threw: ") + e.what());
    verdict_ = {[](HttpRequest&&, const ReplyPtr& reply) { send_error(*reply, handler_threw()); }, false};
  }
}

void Connection::dispatch() {
  HttpRequest request = std::move(parser_.request());
  const Verdict verdict = std::move(verdict_);
  verdict_ = {};
  judged_ = false;
  request.arrived_ns = IoThread::now_ns();
  keep_alive_ = parser_.keep_alive() && !deaf_ && !io_.shared().draining.load(std::memory_order_relaxed);
  head_request_ = request.method == "HEAD";
  version_ = request.version;
  no_body_ = chunked_ = complete_ = answered_ = false;
  body_until_ = body_last_ = body_seen_ = 0;
  request.lease = std::move(received_);
  received_ = ByteLease(place_.address()->received);
  parser_.reset();

  state_ = State::handling;
  io_.shared().metrics->requests.add();
  const auto stream = std::make_shared<Stream>(io_.shared_from_this(), limits().out_bytes, place_.address()->unsent);
  stream->connection = this;
  stream_ = stream;
  try {
    verdict.answer(std::move(request), Stream::handle_for(stream));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    log_error(std::string("http: a handler threw: ") + e.what());
    // No effect when it was answered, or when the handler's last ReplyPtr went while the exception passed.
    send_error(*stream, handler_threw());
  }
  sweep(0);
}

void Connection::refuse_for_room() {
  const std::string limit = std::to_string(limits().all_body_bytes);
  refuse({503, "no room for this request beside the others: all together may have " + limit + " bytes (all_body_bytes)",
          "server_error", "", "no_room"},
         {{"Retry-After", "1"}});
}

void Connection::refuse(const HttpError& error, HttpHeaders headers) {
  headers.push_back({"Content-Type", "application/json"});
  const std::string body = error_body(error);
  ResponseHead head;
  head.status = error.status;
  head.headers = &headers;
  head.date = io_.date();
  head.content_length = static_cast<int64_t>(body.size());
  head.close = true;
  std::string bytes;
  append_head(bytes, head);
  answered_ = true;
  outbox_.append(bytes + body);
  io_.shared().metrics->count_rejected(error.status);
  io_.shared().metrics->count_response(error.status);
  linger();
}

// Nobody will read what came, or what was reserved for it.
void Connection::drop_input() {
  verdict_ = {};
  parser_.reset();
  received_.set(parser_.held_bytes());
  std::string().swap(in_);
  in_at_ = 0;
  ahead_.resize(0);
}

void Connection::linger() {
  begin_lingering();
  drop_input();
  flush_out();
  arm_read();
}

void Connection::begin_lingering() {
  state_ = State::lingering;
  linger_since_ = patience_ns();
  linger_begun_ = io_.patience_ns();
  n_thrown_ = 0;
}

void Connection::tick() {
  if (paused_) {
    if (peer_is_gone()) return on_eof();
    paused_ = false;
    arm_read();
  }
  if (state_ == State::handling) stream_->retry();
  hold_to_time(true);
}

// What came in time may lie unread, and what the client took may not have been noticed. So who is late is looked at
// once more (read from in its turn, or written to), and judged then: who dribbles bytes does not win more than that.
void Connection::hold_to_time(bool may_look) {
  const Late late = how_late();
  if (late == Late::no) return;
  if (!may_look) return end_late(late);
  if (late == Late::answer) {
    flush_out();
    return hold_to_time(false);
  }
  if (!has_unread()) return end_late(late);
  looks_ = readable_ = true;
  want_turn(false);
}

Connection::Late Connection::how_late() const {
  const HttpLimits& l = limits();
  const int64_t now = patience_ns();
  switch (state_) {
    case State::reading: return how_late_reading(now);
    case State::handling: {
      const bool stalled = stall_until_ != 0 && now > stall_until_;
      return stalled || (!outbox_.empty() && is_over(write_last_, l.write_timeout_ms, now)) ? Late::answer : Late::no;
    }
    case State::lingering: {  // what waits for its turn is thrown away as long as it is no more than a body
      const bool too_much = n_thrown_ > l.body_bytes && is_over(linger_begun_, l.linger_ms, io_.patience_ns());
      return too_much || is_over(linger_since_, l.linger_ms, now) ? Late::lingering : Late::no;
    }
    case State::closed: break;
  }
  return Late::no;
}

Connection::Late Connection::how_late_reading(int64_t now) const {
  const HttpLimits& l = limits();
  if (!parser_.started()) {
    if (io_.shared().draining.load(std::memory_order_relaxed)) return Late::idle;
    const bool greeted = tls_ == nullptr || tls_->ready();
    return is_over(idle_since_, greeted ? l.idle_timeout_ms : l.header_timeout_ms, now) ? Late::idle : Late::no;
  }
  if (parser_.state() == RequestParser::State::head)
    return is_over(head_since_, l.header_timeout_ms, now) ? Late::head : Late::no;
  if (is_over(body_last_, l.body_timeout_ms, now)) return Late::body_stopped;
  return now > body_until_ ? Late::body_slow : Late::no;
}

void Connection::end_late(Late late) {
  const HttpLimits& l = limits();
  const auto too_slow = [this](std::string message) {
    refuse({408, std::move(message), "invalid_request_error", "", "timeout"});
  };
  switch (late) {
    case Late::no: return;
    case Late::idle: return close(CloseReason::client_gone);
    case Late::head:
      return too_slow("the head was not complete after " + std::to_string(l.header_timeout_ms) +
                      " ms (header_timeout_ms)");
    case Late::body_stopped:
      return too_slow("no body bytes for " + std::to_string(l.body_timeout_ms) + " ms (body_timeout_ms)");
    case Late::body_slow:
      return too_slow("the body came slower than " + std::to_string(l.body_bytes_per_s) +
                      " bytes per second (body_bytes_per_s)");
    case Late::answer: return cut(CloseReason::stalled);
    case Late::lingering: return close(CloseReason::finished);
  }
}

// Of this client: in the kernel, or waiting for its turn.
bool Connection::has_unread() const {
  pollfd p{const_cast<tcp::socket&>(socket_).native_handle(), POLLIN, 0};
  return waits() || ::poll(&p, 1, 0) == 1;
}

// For a connection whose reading is paused, where the end of the stream hides behind unread bytes.
bool Connection::peer_is_gone() const {
  pollfd p{const_cast<tcp::socket&>(socket_).native_handle(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Connection::drain() {
  keep_alive_ = false;
  hold_to_time(true);
}

void Connection::shut_down() {
  if (state_ == State::handling)
    cut(CloseReason::shutdown);
  else
    close(CloseReason::shutdown);
}

void Connection::cut(CloseReason reason) {
  error_code ec;
  socket_.set_option(asio::socket_base::linger(true, 0), ec);
  close(reason);
}

void Connection::close(CloseReason reason) {
  if (state_ == State::closed) return;
  const auto self = shared_from_this();
  state_ = State::closed;
  error_code ec;
  socket_.close(ec);
  io_.remove(*this);
  io_.leave_turns(*this);
  drop_input();
  place_.leave();
  const auto stream = std::move(stream_);
  stream_ = nullptr;
  if (!stream) return;
  io_.shared().metrics->count_closed(reason);
  stream->close(reason);
}

}  // namespace quire
