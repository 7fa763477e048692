#include "http/upstream_exchange.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/nanoseconds.h"
#include "http/io_thread.h"

namespace quire {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kTurnBytes = 256 << 10;  // to one server, before the others of this thread have their turn

constexpr std::string_view kHopFields[] = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"};
constexpr std::string_view kHopPrefix = "proxy-";  // -connection, -authenticate, -authorization, …

// No value may end its line early; fields of a request that was read here hold no such bytes.
void append_value(std::string& out, std::string_view value) {
  for (const char c : value) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  out += "\r\n";
}

std::string head_of(const UpstreamRequest& request) {
  const UpstreamAddress& to = request.to;
  // Over TLS as the certificate has it, also where the address was found under that name: who stands before several
  // servers goes by both names, and refuses two that differ (RFC 9110, 7.4).
  const std::string host = UpstreamAddress{to.tls_name.empty() ? to.host : to.tls_name, to.port}.text();
  std::string out = request.method + " " + request.target + " HTTP/1.1\r\nHost: " + host + "\r\n";
  for (const HttpHeader& h : request.headers) {
    out.append(h.name).append(": ");
    append_value(out, h.value);
  }
  const bool may_have_body = request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (request.body != nullptr || may_have_body)
    out += "Content-Length: " + std::to_string(request.body != nullptr ? request.body->size() : 0) + "\r\n";
  return out + "\r\n";
}

std::string passed(std::string_view what, int limit_ms, std::string_view name) {
  return std::string(what) + " for " + std::to_string(limit_ms) + " ms (" + std::string(name) + ")";
}

// A machine that is gone says nothing more, not even that: it is asked, and given up after `dead_ms`.
void watch_for_life(int fd, int dead_ms) {
  const int every_s = std::max(1, dead_ms / 3000);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &every_s, sizeof every_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof dead_ms);
}

}  // namespace

bool is_hop_field(std::string_view name, std::string_view connection) {
  if (name.starts_with(kHopPrefix)) return true;
  if (std::find(std::begin(kHopFields), std::end(kHopFields), name) != std::end(kHopFields)) return true;
  return !connection.empty() && has_list_token(connection, name);
}

std::string connection_fields(const HttpHeaders& headers) {
  std::string out;
  for (const HttpHeader& h : headers)
    if (h.name == "connection") out.append(out.empty() ? "" : ",").append(h.value);
  return out;
}

std::shared_ptr<Upstream> ask_upstream(UpstreamRequest request,
                                       const UpstreamLimits& limits,
                                       std::shared_ptr<UpstreamEvents> events) {
  IoThread* const io = IoThread::current();
  QR_CHECK(io != nullptr, "ask_upstream outside of an io thread");
  auto exchange = std::make_shared<UpstreamExchange>(*io, std::move(request), limits, std::move(events));
  exchange->start();
  return exchange;
}

UpstreamExchange::UpstreamExchange(IoThread& io,
                                   UpstreamRequest request,
                                   const UpstreamLimits& limits,
                                   std::shared_ptr<UpstreamEvents> events)
    : io_(io),
      request_(std::move(request)),
      limits_(limits),
      events_(std::move(events)),
      head_(head_of(request_)),
      parser_(limits.http, request_.method == "HEAD") {}

// As a task, so that nothing happens within the caller's call.
void UpstreamExchange::start() {
  begun_ns_ = moved_ns_ = io_.patience_ns();
  io_.upstreams().enter(shared_from_this());
  io_.push([self = shared_from_this()] { self->guarded(&UpstreamExchange::begin); });
}

// Once the io thread stops, nobody would end what begins: its clock stands still.
void UpstreamExchange::begin() {
  if (io_.stopping()) return cancel();
  socket_ = io_.upstreams().take(request_.to);
  if (socket_ == nullptr) return resolve();
  socket_->user = this;
  ask();
}

// The answer comes back as a task, for an exchange that may be over by then.
void UpstreamExchange::resolve() {
  io_.lookup().find(
      request_.to.host, request_.to.port,
      [weak = weak_from_this(), &io = io_](const std::vector<HostAddress>& found, const std::string& error) {
        io.push([weak, found, error] {
          if (const auto self = weak.lock()) self->guarded(&UpstreamExchange::take_addresses, found, error);
        });
        io.wake();
      });
}

void UpstreamExchange::take_addresses(std::vector<HostAddress> found, std::string error) {
  if (found.empty()) return fail(UpstreamFault::unreached, "cannot connect: " + error);
  for (const HostAddress& one : found) {
    tcp::endpoint& to = *endpoints_.emplace(endpoints_.begin());
    to.resize(one.n_bytes);
    std::memcpy(to.data(), &one.bytes, one.n_bytes);
  }
  connect_next({});
}

void UpstreamExchange::connect_next(error_code last) {
  if (endpoints_.empty()) return fail(UpstreamFault::unreached, "cannot connect: " + last.message());
  const tcp::endpoint to = endpoints_.back();
  endpoints_.pop_back();
  if (socket_ != nullptr) {
    socket_->user = nullptr;
    socket_->close();
  }
  socket_ = std::make_shared<UpstreamSocket>(io_, request_.to);
  socket_->user = this;
  socket_->socket.async_connect(to, [weak = weak_from_this(), socket = socket_, &io = io_](error_code ec) {
    const auto self = weak.lock();
    if (self != nullptr && self->socket_ == socket && self->state_ == State::connecting) {
      if (ec)
        self->guarded(&UpstreamExchange::connect_next, ec);
      else
        self->guarded(&UpstreamExchange::connected);
    }
    io.run_work();
  });
}

void UpstreamExchange::connected() {
  error_code ec;  // none of these is needed to ask
  socket_->socket.non_blocking(true, ec);
  socket_->socket.set_option(tcp::no_delay(true), ec);
  socket_->socket.set_option(boost::asio::socket_base::keep_alive(true), ec);
  watch_for_life(socket_->socket.native_handle(), limits_.dead_ms);
  request_.to.tls_name.empty() ? ask() : greet();
}

void UpstreamExchange::ask() {
  state_ = State::asking;
  moved_ns_ = io_.patience_ns();
  socket_->arm_read();
  send_some();
}

void UpstreamExchange::on_writable() {
  if (state_ == State::asking) send_some();
  if (state_ == State::greeting) send_wire();
}

// A server that refuses early answers and closes while the body is on its way: then its answer is read.
void UpstreamExchange::send_some() {
  if (socket_->tls != nullptr) return send_wire();
  static const std::string kNone;
  const std::string& body = request_.body != nullptr ? *request_.body : kNone;
  const size_t all = n_to_send(), turn_end = std::min(all, sent_ + kTurnBytes);
  while (sent_ < turn_end && !sending_failed_) {
    std::array<iovec, 2> parts{};
    msghdr message{};
    message.msg_iov = parts.data();
    if (sent_ < head_.size()) parts[message.msg_iovlen++] = {head_.data() + sent_, head_.size() - sent_};
    const size_t at = sent_ - std::min(sent_, head_.size());
    if (at < body.size())
      parts[message.msg_iovlen++] = {const_cast<char*>(body.data()) + at, std::min(body.size() - at, kTurnBytes)};
    const ssize_t n = ::sendmsg(socket_->socket.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
      moved_ns_ = io_.patience_ns();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      sending_failed_ = true;
    }
  }
  if (sent_ < all && !sending_failed_) socket_->arm_write();
}

void UpstreamExchange::on_readable() {
  if ((state_ != State::asking && state_ != State::greeting) || paused_) return;
  auto& scratch = io_.scratch();
  const ssize_t n = ::recv(socket_->socket.native_handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return socket_->arm_read();
  if (n <= 0) return n == 0 ? on_end_of_input() : cut_off();
  std::string_view bytes(scratch.data(), static_cast<size_t>(n));
  std::string plain;
  if (socket_->tls != nullptr) bytes = plain = unseal(bytes);
  if (state_ == State::asking && !bytes.empty()) {
    answered_ = true;
    moved_ns_ = io_.patience_ns();
    read_bytes(bytes);
  }
  if (state_ == State::asking && announced_end_ && !paused_) return on_end_of_input();
  if (state_ != State::over && !paused_) socket_->arm_read();
}

void UpstreamExchange::read_bytes(std::string_view bytes) {
  while (!bytes.empty() &&
         (parser_.state() == ResponseParser::State::head || parser_.state() == ResponseParser::State::body))
    bytes.remove_prefix(parser_.feed(bytes, body_));
  if (!bytes.empty()) sending_failed_ = true;  // what nobody asked for: this connection is not kept
  if (parser_.state() == ResponseParser::State::failed && !head_told_)
    return fail(UpstreamFault::malformed, "answered with " + parser_.fault());
  if (parser_.state() != ResponseParser::State::head && !head_told_) deliver_head();
  deliver_body();
}

void UpstreamExchange::deliver_head() {
  head_told_ = true;
  const std::string connection = connection_fields(parser_.headers());
  UpstreamHead head{parser_.status(), std::move(parser_.headers()), parser_.content_length()};
  std::erase_if(head.headers, [&](const HttpHeader& h) { return is_hop_field(h.name, connection); });
  events_->on_head(std::move(head));
}

// What came whole before a fault is delivered first.
void UpstreamExchange::deliver_body() {
  if (state_ == State::over) return;
  paused_ = !body_.empty() && !events_->on_body(body_);
  if (state_ == State::over || paused_) return;
  body_.clear();
  if (parser_.state() == ResponseParser::State::failed)
    return fail(UpstreamFault::malformed, "answered with " + parser_.fault());
  if (parser_.state() == ResponseParser::State::done) finish();
}

void UpstreamExchange::on_end_of_input() {
  if (state_ == State::greeting) return fail_to_greet();
  if (!answered_) return cut_off();
  // Over TLS an end that nobody announced may be anybody's.
  if (socket_->tls != nullptr && !announced_end_) return cut_off();
  parser_.end_of_input();
  if (parser_.state() == ResponseParser::State::done) return finish();
  fail(UpstreamFault::cut, parser_.fault());
}

// A kept connection may have been closed at the very moment: the request is sent again.
void UpstreamExchange::cut_off() {
  if (state_ == State::greeting) return fail_to_greet();
  if (answered_ || !socket_->used_before)
    return fail(UpstreamFault::cut, "the connection was cut before the answer was complete");
  socket_->user = nullptr;
  socket_->close();
  socket_ = nullptr;
  state_ = State::connecting;
  sent_ = 0;
  sending_failed_ = announced_end_ = false;
  moved_ns_ = io_.patience_ns();
  resolve();
}

void UpstreamExchange::resume() {
  if (state_ != State::asking || !paused_) return;
  moved_ns_ = io_.patience_ns();
  guarded(&UpstreamExchange::deliver_body);
  if (state_ != State::asking || paused_) return;
  announced_end_ ? guarded(&UpstreamExchange::on_end_of_input) : socket_->arm_read();
}

void UpstreamExchange::tick(int64_t now_ns) {
  const auto is_over = [&](int limit_ms) { return now_ns - moved_ns_ > int64_t{limit_ms} * kNsPerMs; };
  const bool connects = state_ == State::connecting || state_ == State::greeting;
  if (connects && is_over(limits_.connect_ms))
    return fail(UpstreamFault::unreached, passed("no connection", limits_.connect_ms, "connect_ms"));
  if (state_ != State::asking) return;
  if (limits_.total_ms > 0 && now_ns - begun_ns_ > int64_t{limits_.total_ms} * kNsPerMs)
    return fail(UpstreamFault::timeout, passed("not the whole answer", limits_.total_ms, "total_ms"));
  if (paused_) return;
  const bool waits = !answered_ && all_sent();
  if (!is_over(waits ? limits_.first_byte_ms : limits_.stall_ms) || has_news()) return;
  if (waits)
    return fail(UpstreamFault::timeout, passed("no byte of the answer", limits_.first_byte_ms, "first_byte_ms"));
  fail(UpstreamFault::timeout, passed(answered_ ? "no further byte of the answer" : "no byte of the request taken",
                                      limits_.stall_ms, "stall_ms"));
}

size_t UpstreamExchange::n_to_send() const {
  return head_.size() + (request_.body != nullptr ? request_.body->size() : 0);
}

bool UpstreamExchange::all_sent() const {
  return sent_ == n_to_send() && (socket_ == nullptr || socket_->wire.empty());
}

// What came in time, or was taken, and nobody has looked at yet: soon somebody does.
bool UpstreamExchange::has_news() const {
  const bool sends = !all_sent() && !sending_failed_;
  pollfd p{socket_->socket.native_handle(), static_cast<int16_t>(POLLIN | (sends ? POLLOUT : 0)), 0};
  return ::poll(&p, 1, 0) == 1;
}

// Gives the connection back where it can serve again.
void UpstreamExchange::let_go(bool keep) {
  state_ = State::over;
  io_.upstreams().leave(*this);
  if (socket_ == nullptr) return;
  const auto socket = std::move(socket_);
  socket->user = nullptr;
  if (keep)
    io_.upstreams().keep(socket, limits_);
  else
    socket->close();
}

void UpstreamExchange::finish() {
  const auto self = shared_from_this();
  const bool keeps = parser_.keep_alive() && all_sent() && !sending_failed_ && !announced_end_;
  const auto events = std::move(events_);
  let_go(keeps);
  events->on_end(nullptr);
}

void UpstreamExchange::fail(UpstreamFault fault, std::string message) {
  const auto self = shared_from_this();
  const auto events = std::move(events_);
  let_go(false);
  const UpstreamError error{fault, std::move(message)};
  events->on_end(&error);
}

void UpstreamExchange::fail_quietly(const char* what) noexcept {
  try {
    log_error(std::string("http: an exchange with another server ends: ") + what);
    if (state_ != State::over) fail(UpstreamFault::cut, "the exchange could not go on here: out of memory");
  } catch (const std::exception&) {
    if (state_ != State::over) cancel();
  }
}

void UpstreamExchange::cancel() {
  if (state_ == State::over) return;
  const auto self = shared_from_this();
  const auto events = std::move(events_);
  let_go(false);
}

}  // namespace quire
