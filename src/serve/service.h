// Between the sockets and the engine: routes requests to dialects, checks what all of them share in one order (key,
// media type, JSON, schema, the dialect's own parsing and tokenising, context), and owns the sessions. The io threads
// only hand over; parsing and tokenising run in a small pool behind a bounded queue.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/queue.h"
#include "http/router.h"
#include "serve/session.h"

namespace quire {

struct ServiceOptions {
  ServeEnv env;         // ready and metrics_text are filled in by the service
  std::string api_key;  // empty: none is asked for
  int n_prep_threads = 2;
};

class Service final : public Handler {
 public:
  // `engine`, `clock`, `metrics` and what env points to outlive the service.
  Service(Engine& engine, Clock& clock, Metrics& metrics, ServiceOptions options);
  ~Service() override;

  void handle(HttpRequest&& request, ReplyPtr reply) override;

  // Until then /health and /ready answer 503.
  void set_ready() { ready_ = true; }
  // From now on new requests get 503 with Retry-After; blocks until the running ones are over, or for `ms`; those that
  // are left are cancelled and told so. A second call with less time cuts the first one short. Not from an io or prep
  // thread.
  void drain(int64_t ms);
  int64_t n_sessions() const;

 private:
  struct Work {
    const Endpoint* endpoint;
    HttpRequest request;
    std::shared_ptr<Session> session;
  };

  void admit(const Endpoint& endpoint, HttpRequest&& request, ReplyPtr reply);
  std::optional<HttpError> check_head(const Endpoint& endpoint, const HttpRequest& request) const;
  std::shared_ptr<Session> open_session(const Endpoint& endpoint, const HttpRequest& request, ReplyPtr reply);
  std::optional<HttpError> enqueue(Work&& work);
  void close_session(const Session* session);
  void prepare_loop(int index);
  void prepare(Work& work);
  ApiResult<Call> parse(const Endpoint& endpoint, const HttpRequest& request, HttpHeaders& headers) const;
  void quick(const Endpoint& endpoint, const HttpRequest& request, Session& session) const;
  std::optional<HttpError> check_context(const Job& job) const;
  HttpError shutdown_refusal() const;

  Engine& engine_;
  Metrics& registry_;
  ServeMetrics metrics_;
  LoadEstimate load_;
  ServeEnv env_;
  const std::string api_key_;
  SessionContext context_;
  Router router_;

  std::atomic<bool> ready_{false}, draining_{false};
  mutable std::mutex mu_;
  std::condition_variable no_sessions_;
  std::unordered_map<const Session*, std::shared_ptr<Session>> sessions_;                             // guarded by mu_
  std::chrono::steady_clock::time_point drain_until_ = std::chrono::steady_clock::time_point::max();  // likewise

  std::atomic<int64_t> waiting_bytes_{0};  // bodies in queue_
  Queue<Work> queue_;
  std::vector<std::thread> prep_;
};

}  // namespace quire
