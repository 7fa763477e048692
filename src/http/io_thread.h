// One io thread: an event loop, the connections that live on it, and its work list (IoQueue). A connection never leaves
// its thread, so nothing here is locked but the work list.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/patience.h"
#include "http/byte_budget.h"
#include "http/io_queue.h"
#include "http/op_slot.h"
#include "http/server.h"
#include "http/turns.h"

namespace quire {

class Connection;
class HostLookup;
class TlsContext;
class UpstreamPool;

// The room's metrics, under their names in docs/http.md.
class HttpMetrics {
 public:
  explicit HttpMetrics(Metrics& metrics);
  void count_response(int status);
  void count_rejected(int status);
  void count_closed(CloseReason reason);

  Gauge &connections, &received, &unsent;
  Histogram& delivery;  // seconds
  Counter &accepted, &accept_failed, &requests, &bytes_in, &bytes_out, &failed;

 private:
  Metrics& metrics_;
  Counter* by_class_[6];
  Counter* by_reason_[5];
};

// What is counted as one client: how many connections it has, and what they make the server hold.
struct Address {
  std::string name;
  int n_connections = 0;  // guarded by Addresses
  std::shared_ptr<ByteAccount> received, unsent;
  std::vector<Turns::Line> lines;  // of each io thread, which alone touches it
};

// Those that have connections. Any thread.
class Addresses {
 public:
  Addresses(std::shared_ptr<ByteBudget> received, std::shared_ptr<ByteBudget> unsent, int n_io_threads)
      : received_(std::move(received)), unsent_(std::move(unsent)), n_io_threads_(n_io_threads) {}
  // One connection more; `n` is set to how many it has now.
  std::shared_ptr<Address> enter(const std::string& name, int& n);
  void leave(Address& address);

 private:
  const std::shared_ptr<ByteBudget> received_, unsent_;
  const int n_io_threads_;
  std::mutex mu_;
  std::unordered_map<std::string, std::shared_ptr<Address>> all_;
};

// What a new connection is told instead of being served.
enum class Reject : uint8_t { none, all_in_use, all_of_address };

struct ServerShared;

// A connection's place among all, among those of its io thread and of its address, until it leaves.
class Place {
 public:
  Place(std::shared_ptr<ServerShared> shared, std::shared_ptr<Address> address, std::atomic<int>& of_thread);
  Place(Place&& other) noexcept = default;
  Place& operator=(Place&&) = delete;
  ~Place() { leave(); }
  void leave();
  const std::shared_ptr<Address>& address() const { return address_; }

 private:
  std::shared_ptr<ServerShared> shared_;
  std::shared_ptr<Address> address_;  // null: it has left
  std::atomic<int>* of_thread_;
};

// A fresh, non-blocking socket on its way to an io thread.
struct Arrival {
  Arrival(int socket, std::string from, Place&& at) : fd(socket), peer(std::move(from)), place(std::move(at)) {}
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  ~Arrival();  // closes what nobody took
  int fd;
  std::string peer;  // the address as text
  Place place;
  bool v6 = false;
  Reject reject = Reject::none;
};

// What all io threads of one server share.
struct ServerShared {
  ServerShared(const HttpLimits& l, int n_io_threads, Clock* clock_or_null)
      : limits(l),
        clock(clock_or_null != nullptr ? *clock_or_null : system_clock),
        received(std::make_shared<ByteBudget>(l.all_body_bytes)),
        unsent(std::make_shared<ByteBudget>(l.all_out_bytes)),
        addresses(received, unsent, n_io_threads) {}
  const HttpLimits limits;
  SystemClock system_clock;
  Clock& clock;
  const std::shared_ptr<ByteBudget> received, unsent;
  Handler* handler = nullptr;
  std::unique_ptr<Metrics> own_metrics;  // when the caller gave none
  std::unique_ptr<HttpMetrics> metrics;
  std::atomic<int> n_connections{0};
  Addresses addresses;
  std::shared_ptr<const TlsContext> tls;  // null: plain HTTP
  std::atomic<bool> draining{false};
};

class IoThread final : public IoQueue, public std::enable_shared_from_this<IoThread> {
 public:
  IoThread(std::shared_ptr<ServerShared> shared, int index);
  ~IoThread() override;

  void start();
  // Any thread. Closes every connection with CloseReason::shutdown, ends the loop and joins.
  void stop();
  // Any thread: a fresh connection; the thread owns it from here on.
  void adopt(std::shared_ptr<Arrival> arrival);
  // Any thread: idle connections close, others after their reply.
  void drain();
  std::atomic<int>& n_connections() { return n_connections_; }

  // --- io thread only ---
  boost::asio::io_context& context() { return context_; }
  ServerShared& shared() { return *shared_; }
  // After each callback: tasks and dirty streams. What a task throws ends that task alone.
  void run_work() noexcept;
  // The one that calls; null elsewhere.
  static IoThread* current();
  // Connections to other servers that live here.
  UpstreamPool& upstreams();
  // Where they are.
  HostLookup& lookup();
  // stop() was heard: what begins now is never ended by a clock.
  bool stopping() const { return stopping_; }
  // The connection has something to do, and does it when its turn comes. `again`: its turn is over just now.
  void want_turn(Connection& connection, bool again);
  void leave_turns(Connection& connection);
  void remove(Connection& connection);
  std::vector<char>& scratch() { return scratch_; }
  std::string_view date();
  static int64_t now_ns();
  // What timeouts are measured by: while this thread gets no processor to hear others with, it hardly passes.
  int64_t patience_ns() const { return patience_.now_ns(); }

 private:
  void post_wake() override;
  void run();
  void take_in(Arrival& arrival);
  void arm_wake();
  void arm_tick();
  Turns::Line& line_of(const Connection& connection) const;
  void arm_turns();
  void take_turns();
  void on_tick();

  const std::shared_ptr<ServerShared> shared_;
  const int index_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  boost::asio::posix::stream_descriptor wake_;  // an eventfd
  boost::asio::steady_timer tick_;
  OpSlot wake_slot_, tick_slot_, turns_slot_;
  bool turns_armed_ = false;
  const int tick_ms_;
  Patience patience_;
  std::thread thread_;
  std::atomic<int> n_connections_{0};
  Turns turns_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::unique_ptr<UpstreamPool> upstreams_;  // null until one is asked for
  Work work_;
  std::vector<char> scratch_;
  int64_t date_second_ = -1;
  std::string date_;
  bool stopping_ = false;
  std::unique_ptr<HostLookup> lookup_;  // null until one is asked for; last: its thread calls the others
};

}  // namespace quire
