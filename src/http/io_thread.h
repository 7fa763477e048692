// One io thread: an event loop, the connections that live on it, and its work list (IoQueue). A connection never leaves
// its thread, so nothing here is locked but the work list.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "http/io_queue.h"
#include "http/server.h"

namespace quire {

class Connection;
class TlsContext;

// The room's metrics, under their names in docs/http.md.
class HttpMetrics {
 public:
  explicit HttpMetrics(Metrics& metrics);
  void count_response(int status);
  void count_rejected(int status);
  void count_closed(CloseReason reason);

  Gauge& connections;
  Histogram& delivery;  // seconds
  Counter &accepted, &accept_failed, &requests, &bytes_in, &bytes_out;

 private:
  Metrics& metrics_;
  Counter* by_class_[6];
  Counter* by_reason_[5];
};

// How many connections each address has. Any thread.
class AddressCounts {
 public:
  int add(const std::string& address);  // how many it has now
  void remove(const std::string& address);

 private:
  std::mutex mu_;
  std::unordered_map<std::string, int> counts_;
};

struct Peer {
  std::string address;  // as text
  std::string group;    // what is counted as one: the address, of IPv6 its /64
};

// What a new connection is told instead of being served.
enum class Reject : uint8_t { none, all_in_use, all_of_address };

// What all io threads of one server share.
struct ServerShared {
  HttpLimits limits;
  Handler* handler = nullptr;
  std::unique_ptr<Metrics> own_metrics;  // when the caller gave none
  std::unique_ptr<HttpMetrics> metrics;
  std::atomic<int> n_connections{0};
  AddressCounts per_address;
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
  // Any thread: a fresh, non-blocking socket; the thread owns it from here on. `reject`: say so and close.
  void adopt(int fd, Peer peer, bool v6, Reject reject);
  // Any thread: idle connections close, others after their reply.
  void drain();
  int n_connections() const { return n_connections_.load(std::memory_order_relaxed); }

  // --- io thread only ---
  boost::asio::io_context& context() { return context_; }
  ServerShared& shared() { return *shared_; }
  void run_work();  // after each callback: tasks and dirty streams
  void remove(Connection& connection);
  std::vector<char>& scratch() { return scratch_; }
  std::string_view date();
  static int64_t now_ns();

 private:
  void post_wake() override;
  void run();
  void sweep(const Stream& stream, int64_t woken_ns) const;
  void arm_tick();

  const std::shared_ptr<ServerShared> shared_;
  const int index_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  boost::asio::steady_timer tick_;
  int tick_ms_;
  std::thread thread_;
  std::atomic<int> n_connections_{0};
  std::vector<std::shared_ptr<Connection>> connections_;
  Work work_;
  std::vector<char> scratch_;
  int64_t date_second_ = -1;
  std::string date_;
  bool stopping_ = false;
};

}  // namespace quire
