#include "http/io_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>

#include "base/check.h"
#include "base/nanoseconds.h"
#include "base/thread.h"
#include "http/connection.h"
#include "http/host_lookup.h"
#include "http/response_head.h"
#include "http/stream.h"
#include "http/upstream_pool.h"

namespace quire {
namespace {

namespace asio = boost::asio;

constexpr size_t kScratchBytes = 64 << 10;
thread_local IoThread* current_thread = nullptr;
constexpr int kMaxRounds = 8;      // of work that makes work, before sockets get their turn
constexpr int kTurnsPerRound = 8;  // of connections, before sockets are asked who else has something to do

// Timeouts are looked at in a tick over all connections, at a quarter of the shortest of them: no timer per connection.
int tick_of(const HttpLimits& l) {
  const int shortest = std::min(
      {l.header_timeout_ms, l.body_timeout_ms, l.idle_timeout_ms, l.stall_timeout_ms, l.write_timeout_ms, l.linger_ms});
  return std::clamp(shortest / 4, 5, 250);
}

}  // namespace

HttpMetrics::HttpMetrics(Metrics& m)
    : connections(m.gauge("quire_http_connections", "Open connections.")),
      received(m.gauge("quire_http_received_held_bytes", "Of all_body_bytes, in use.")),
      unsent(m.gauge("quire_http_unsent_held_bytes", "Of all_out_bytes, in use.")),
      delivery(
          m.histogram("quire_http_delivery_seconds",
                      "From the step's end, which wakes the io thread, until an event is with the kernel.",
                      {1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 7.5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1})),
      accepted(m.counter("quire_http_connections_total", "Connections accepted.")),
      accept_failed(m.counter("quire_http_accept_failures_total", "Accepts that failed for want of resources.")),
      requests(m.counter("quire_http_requests_total", "Complete requests handed to a handler.")),
      bytes_in(m.counter("quire_http_received_bytes_total", "Bytes read from clients.")),
      bytes_out(m.counter("quire_http_sent_bytes_total", "Bytes written to clients.")),
      failed(m.counter("quire_http_failures_total", "Connections and tasks that ended by an exception.")),
      metrics_(m) {
  for (int i = 1; i < 6; ++i)
    by_class_[i] =
        &m.counter("quire_http_responses_total", "Responses by class.", {{"class", std::to_string(i) + "xx"}});
  by_class_[0] = by_class_[5];
  for (int i = 0; i < 5; ++i)
    by_reason_[i] = &m.counter("quire_http_replies_closed_total", "Replies by how they ended.",
                               {{"reason", std::string(close_reason_name(static_cast<CloseReason>(i)))}});
}

void HttpMetrics::count_response(int status) { by_class_[status >= 100 && status < 600 ? status / 100 : 0]->add(); }
void HttpMetrics::count_closed(CloseReason reason) { by_reason_[static_cast<int>(reason)]->add(); }
void HttpMetrics::count_rejected(int status) {  // off the fast path: the lookup takes a lock
  metrics_
      .counter("quire_http_rejected_total", "Requests refused before a handler saw them, by status.",
               {{"status", std::to_string(status)}})
      .add();
}

std::shared_ptr<Address> Addresses::enter(const std::string& name, int& n) {
  std::lock_guard lock(mu_);
  const auto found = all_.find(name);
  std::shared_ptr<Address> address = found != all_.end() ? found->second : nullptr;
  if (address == nullptr) {
    address = std::make_shared<Address>();
    address->name = name;
    address->received = std::make_shared<ByteAccount>(received_);
    address->unsent = std::make_shared<ByteAccount>(unsent_);
    address->lines = std::vector<Turns::Line>(static_cast<size_t>(n_io_threads_));
    all_.emplace(name, address);
  }
  n = ++address->n_connections;
  return address;
}

void Addresses::leave(Address& address) {
  std::lock_guard lock(mu_);
  QR_CHECK(address.n_connections > 0, "an address that has no connection");
  if (--address.n_connections == 0) all_.erase(address.name);
}

Place::Place(std::shared_ptr<ServerShared> shared, std::shared_ptr<Address> address, std::atomic<int>& of_thread)
    : shared_(std::move(shared)), address_(std::move(address)), of_thread_(&of_thread) {
  of_thread_->fetch_add(1, std::memory_order_relaxed);
  shared_->n_connections.fetch_add(1);
}

void Place::leave() {
  if (address_ == nullptr) return;
  of_thread_->fetch_sub(1, std::memory_order_relaxed);
  shared_->addresses.leave(*address_);
  address_ = nullptr;
  shared_->n_connections.fetch_sub(1);
}

Arrival::~Arrival() {
  if (fd >= 0) ::close(fd);
}

IoThread::IoThread(std::shared_ptr<ServerShared> shared, int index)
    : shared_(std::move(shared)),
      index_(index),
      guard_(asio::make_work_guard(context_)),
      wake_(context_),
      tick_(context_),
      tick_ms_(tick_of(shared_->limits)),
      patience_(shared_->clock, 2 * tick_ms_ * kNsPerMs),
      scratch_(kScratchBytes) {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  QR_CHECK(fd >= 0, "no descriptor left to start with");
  wake_.assign(fd);
}

IoThread::~IoThread() = default;

int64_t IoThread::now_ns() { return SystemClock().now_ns(); }

void IoThread::start() {
  arm_wake();
  arm_tick();
  thread_ = std::thread([this] { run(); });
}

void IoThread::run() {
  set_thread_name("quire-io-" + std::to_string(index_));
  enter_io_thread();
  current_thread = this;
  context_.run();  // nothing that it calls throws
  close();
}

void IoThread::stop() {
  push([this] {
    stopping_ = true;
    while (!connections_.empty()) std::shared_ptr(connections_.back())->shut_down();
    if (upstreams_ != nullptr) upstreams_->shut_down();
    tick_.cancel();
    wake_.cancel();
    guard_.reset();
  });
  wake();
  if (thread_.joinable()) thread_.join();
}

// Shared, because a task is copyable and may be dropped.
void IoThread::adopt(std::shared_ptr<Arrival> arrival) {
  push([this, arrival = std::move(arrival)] { take_in(*arrival); });
  wake();
}

void IoThread::take_in(Arrival& arrival) {
  if (stopping_) return;
  asio::ip::tcp::socket socket(context_);
  boost::system::error_code ec;
  socket.assign(arrival.v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), arrival.fd, ec);
  if (ec) return;
  arrival.fd = -1;  // the socket has it now
  auto connection = std::make_shared<Connection>(*this, std::move(socket), arrival);
  connection->index = connections_.size();
  connections_.push_back(connection);
  shared_->metrics->accepted.add();
  shared_->metrics->connections.add(1);
  connection->guarded(&Connection::start, arrival.reject);
}

void IoThread::drain() {
  push([this] {
    for (size_t i = connections_.size(); i-- > 0;) std::shared_ptr(connections_[i])->drain();
  });
  wake();
}

void IoThread::remove(Connection& connection) {
  const size_t i = connection.index;
  QR_CHECK(i < connections_.size() && connections_[i].get() == &connection);
  connections_[i] = std::move(connections_.back());
  connections_[i]->index = i;
  connections_.pop_back();
  shared_->metrics->connections.add(-1);
}

IoThread* IoThread::current() { return current_thread; }

UpstreamPool& IoThread::upstreams() {
  if (upstreams_ == nullptr) upstreams_ = std::make_unique<UpstreamPool>(*this);
  return *upstreams_;
}

HostLookup& IoThread::lookup() {
  if (lookup_ == nullptr) lookup_ = std::make_unique<HostLookup>();
  return *lookup_;
}

void IoThread::post_wake() {
  const uint64_t one = 1;
  static_cast<void>(::write(wake_.native_handle(), &one, sizeof one));
}

void IoThread::arm_wake() {
  wake_.async_wait(asio::posix::stream_descriptor::wait_read, wake_slot_.bind([this](boost::system::error_code ec) {
    if (ec || stopping_) return;
    uint64_t n = 0;
    static_cast<void>(::read(wake_.native_handle(), &n, sizeof n));
    arm_wake();
    run_work();
  }));
}

void IoThread::run_work() noexcept {
  for (int round = 0; has_work(); ++round) {
    if (round == kMaxRounds) return post_wake();
    take(work_);
    for (const Task& task : work_.tasks) {
      try {
        task();
      } catch (const std::exception&) {
        shared_->metrics->failed.add();
      }
    }
    // What was not woken for came before its step's end, or from this thread.
    while (const auto one = work_.dirty.pop()) {
      const auto stream = std::static_pointer_cast<Stream>(one);
      stream->popped();
      if (stream->connection == nullptr) continue;
      const auto connection = stream->connection->shared_from_this();
      connection->guarded(&Connection::sweep, work_.woken_ns);
    }
    work_.clear();
  }
}

Turns::Line& IoThread::line_of(const Connection& connection) const {
  return connection.address().lines[static_cast<size_t>(index_)];
}

void IoThread::want_turn(Connection& connection, bool again) {
  turns_.push(line_of(connection), connection, again);
  arm_turns();
}

void IoThread::leave_turns(Connection& connection) { turns_.leave(line_of(connection), connection); }

// Behind what sockets have to say by then.
void IoThread::arm_turns() {
  if (turns_armed_) return;
  turns_armed_ = true;
  asio::post(context_, turns_slot_.bind([this] {
    turns_armed_ = false;
    if (!stopping_) take_turns();
  }));
}

void IoThread::take_turns() {
  for (int i = 0; i < kTurnsPerRound; ++i) {
    Turns::Waiter* const next = turns_.next();
    if (next == nullptr) return;
    const auto connection = static_cast<Connection*>(next)->shared_from_this();
    connection->guarded(&Connection::take_turn);
    run_work();
  }
  if (!turns_.empty()) arm_turns();
}

void IoThread::arm_tick() {
  tick_.expires_after(std::chrono::milliseconds(tick_ms_));
  tick_.async_wait(tick_slot_.bind([this](boost::system::error_code ec) {
    if (ec || stopping_) return;
    on_tick();
    run_work();
    arm_tick();
  }));
}

void IoThread::on_tick() {
  const int64_t now = patience_.look();
  shared_->metrics->received.set(static_cast<double>(shared_->received->used()));
  shared_->metrics->unsent.set(static_cast<double>(shared_->unsent->used()));
  // From the back: a connection that closes is replaced by the last one, which has had its turn. The copy keeps it
  // alive until its call returns.
  for (size_t i = connections_.size(); i-- > 0;) {
    const std::shared_ptr<Connection> connection = connections_[i];
    connection->guarded(&Connection::tick);
  }
  if (upstreams_ != nullptr) upstreams_->tick(now);
}

std::string_view IoThread::date() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  if (second != date_second_) {
    date_second_ = second;
    date_ = http_date(second);
  }
  return date_;
}

}  // namespace quire
