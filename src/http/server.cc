// Start, flush and stop of the io threads and the acceptor. No event loop code here.
#include "http/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "http/acceptor.h"
#include "http/clocked_server.h"
#include "http/io_thread.h"
#include "http/tls.h"

namespace quire {
namespace {

using Clk = std::chrono::steady_clock;

constexpr int kOtherDescriptors = 256;  // what the rest of the process may need beside connections
constexpr auto kDrainPoll = std::chrono::milliseconds(5);

// The soft limit of descriptors is often 1024, a historical value that is there for select(); raising it to the hard
// limit needs no right. Failure shows later, as an accept that backs off.
void raise_descriptor_limit(int n_connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = std::min(limit.rlim_max, static_cast<rlim_t>(n_connections + kOtherDescriptors));
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const ServerOptions& options, Handler& handler, Clock* clock)
      : shared_(std::make_shared<ServerShared>(options.limits, std::max(1, options.n_io_threads), clock)) {
    shared_->handler = &handler;
    if (options.metrics == nullptr) shared_->own_metrics = std::make_unique<Metrics>();
    shared_->metrics =
        std::make_unique<HttpMetrics>(options.metrics != nullptr ? *options.metrics : *shared_->own_metrics);
    for (int i = 0; i < std::max(1, options.n_io_threads); ++i)
      threads_.push_back(std::make_shared<IoThread>(shared_, i));
    acceptor_ = std::make_shared<Acceptor>(shared_, threads_);
  }
  ~ServerImpl() override { stop(0); }

  Status use_tls(const std::string& certificate, const std::string& key) {
    if (certificate.empty() && key.empty()) return {};
    QR_TRY(shared_->tls, TlsContext::load(certificate, key));
    return {};
  }
  Status listen(const std::string& host, int port) {
    QR_TRY_VOID(acceptor_->listen(host, port));
    raise_descriptor_limit(shared_->limits.n_connections);
    acceptor_->start();
    for (const auto& thread : threads_) thread->start();
    running_ = true;
    return {};
  }

  int port() const override { return acceptor_->port(); }
  std::string url() const override { return acceptor_->url(); }
  int n_connections() const override { return shared_->n_connections.load(); }
  void flush() override {
    for (const auto& thread : threads_) thread->wake();
  }
  void post(std::function<void()> fn) override {
    const size_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    IoThread& thread = *threads_[turn % threads_.size()];
    thread.push(std::move(fn));
    thread.wake();
  }
  void stop(int drain_ms) override;

 private:
  std::shared_ptr<ServerShared> shared_;
  std::vector<std::shared_ptr<IoThread>> threads_;
  std::shared_ptr<Acceptor> acceptor_;
  std::atomic<size_t> turn_{0};

  std::mutex stop_mu_;
  std::condition_variable stopped_cv_;
  bool running_ = false, stopping_ = false;  // guarded by stop_mu_ once started
  Clk::time_point deadline_ = Clk::time_point::max();
};

void ServerImpl::stop(int drain_ms) {
  std::unique_lock lock(stop_mu_);
  if (!running_) return;
  deadline_ = std::min(deadline_, Clk::now() + std::chrono::milliseconds(drain_ms));
  stopped_cv_.notify_all();
  if (stopping_) {
    stopped_cv_.wait(lock, [&] { return !running_; });
    return;
  }
  stopping_ = true;
  shared_->draining.store(true);
  threads_.front()->push([acceptor = acceptor_] { acceptor->stop(); });
  threads_.front()->wake();
  for (const auto& thread : threads_) thread->drain();
  while (n_connections() > 0 && Clk::now() < deadline_) stopped_cv_.wait_for(lock, kDrainPoll);
  lock.unlock();
  for (const auto& thread : threads_) thread->stop();
  lock.lock();
  running_ = false;
  stopped_cv_.notify_all();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Handler& handler) {
  return start_server(options, handler, nullptr);
}

Result<std::unique_ptr<Server>> start_server(const ServerOptions& options, Handler& handler, Clock* clock) {
  QR_TRY_VOID(check_limits(options.limits));
  auto server = std::make_unique<ServerImpl>(options, handler, clock);
  QR_TRY_VOID(server->use_tls(options.tls_certificate, options.tls_key));
  QR_TRY_VOID(server->listen(options.host, options.port));
  return server;
}

}  // namespace quire
