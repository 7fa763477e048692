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

#include "base/sweeper.h"
#include "base/turn_queue.h"
#include "http/door.h"
#include "http/keys.h"
#include "serve/recent_salts.h"
#include "serve/resumable_stream.h"
#include "serve/seeds.h"
#include "serve/session.h"

namespace quire {

struct ServiceOptions {
  ServeEnv env{};              // ready and metrics_text are filled in by the service
  std::vector<ApiKey> keys{};  // empty: none is asked for
  GuardOptions guard{}, admin_guard{};
  MachineFacts machine{};
  bool llama_metrics = false;                             // as ServeOptions has it
  std::vector<std::string> off{};                         // likewise
  std::function<std::string(uint64_t salt)> salt_name{};  // likewise
  std::shared_ptr<Tracer> tracer;                         // null: no traces
  bool own_admin_address = false;                         // the operator's endpoints answer in admin() only
  int n_prep_threads = 2;
};

class Service final {
 public:
  // `engine`, `clock`, `metrics` and what env points to outlive the service.
  Service(Engine& engine, Clock& clock, Metrics& metrics, ServiceOptions options);
  ~Service();

  // What answers at the server's address.
  Handler& door() { return door_; }
  // What answers at an address of the operator's own: the admin endpoints and those that need no key.
  Handler& admin_door() { return admin_door_; }

  // Until then /ready answers 503.
  void set_ready() { ready_ = true; }
  // From now on new requests get 503 with Retry-After; blocks until the running ones are over, or for `ms`; those that
  // are left are cancelled and told so. A second call with less time cuts the first one short. Not from an io or prep
  // thread.
  void drain(int64_t ms);
  int64_t n_sessions() const;
  // The requests that are here and have something to wait for.
  RequestList requests() const;

 private:
  struct Work {
    const Endpoint* endpoint;
    HttpRequest request;
    Asker asker;
    std::shared_ptr<Session> session;
  };

  // What a request was found to be on its head: whose, and with what place among those of its key, or why it is
  // refused.
  struct Admission {
    std::shared_ptr<KeyHolder> key;  // null: nobody's
    KeyLease lease;
    std::optional<KeyRefusal> refusal;
  };

  bool is_off(const Endpoint& endpoint) const;
  void add_routes(bool own_admin_address);
  void add_route(const Endpoint& endpoint, std::string_view path, bool own_admin_address);
  Verdict judge(const Endpoint& endpoint, const HttpRequest& head);
  std::optional<KeyRefusal> check(const Endpoint& endpoint, const HttpRequest& head, Admission& admission) const;
  std::optional<KeyRefusal> check_key(const Endpoint& endpoint, const HttpRequest& head, Admission& admission) const;
  void admit(const Endpoint& endpoint, Admission& admission, HttpRequest&& request, ReplyPtr reply);
  void try_admit(const Endpoint& endpoint, Admission& admission, HttpRequest&& request, ReplyPtr reply);
  std::shared_ptr<Session> open_session(const Endpoint& endpoint, const HttpRequest& request, ReplyPtr reply);
  std::optional<HttpError> enqueue(Work&& work);
  void close_session(const Session* session);
  std::vector<std::shared_ptr<Session>> all_sessions() const;
  AdapterUse adapter_use() const;
  void prepare_loop(int index);
  void prepare(Work& work);
  void try_prepare(Work& work);
  ApiResult<Call> parse(const Work& work, HttpHeaders& headers) const;
  void set_salts(const Work& work, Job& job);
  Asker asker(const HttpRequest& request, const KeyHolder* key) const;
  ReplyPtr make_resumable(const Asker& asker, ReplyPtr reply);
  void quick(const Endpoint& endpoint, const Work& work, const ReplyPtr& reply);
  void take_up(const TakeUp& taken, Session& session, const ReplyPtr& reply);
  std::optional<HttpError> check_context(const Job& job) const;
  HttpError shutdown_refusal() const;

  Engine& engine_;
  Metrics& registry_;
  ServeMetrics metrics_;
  LoadEstimate load_;
  ServeEnv env_;
  const MachineFacts machine_;
  const std::vector<std::string> off_;
  const std::function<std::string(uint64_t salt)> salt_name_;
  const KeyRing keys_;
  SessionContext context_;
  Door door_, admin_door_;
  StreamTable streams_;
  RecentSalts salts_;
  const uint64_t address_secret_;  // of addresses' numbers: nobody chooses to be another's

  std::atomic<bool> ready_{false}, draining_{false};
  mutable std::mutex mu_;
  std::condition_variable no_sessions_;
  std::unordered_map<const Session*, std::shared_ptr<Session>> sessions_;                             // guarded by mu_
  std::chrono::steady_clock::time_point drain_until_ = std::chrono::steady_clock::time_point::max();  // likewise

  std::atomic<int64_t> waiting_bytes_{0};  // bodies in queue_
  TurnQueue<Work> queue_;                  // tenants take turns
  std::vector<std::thread> prep_;
  Sweeper sweeper_;  // last: it uses the tables
};

}  // namespace quire
