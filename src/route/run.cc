#include "route/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>

#include "base/bounded_reader.h"
#include "base/nanoseconds.h"
#include "base/secure_random.h"
#include "http/server.h"
#include "http/tls.h"
#include "route/discovery.h"
#include "route/front.h"
#include "route/kv_feeds.h"
#include "route/model_watch.h"
#include "route/prober.h"
#include "route/shared_loads.h"
#include "route/worker_list.h"

namespace quire {
namespace {

constexpr std::chrono::milliseconds kDrainPoll{5};
constexpr int kLastBytesMs = 2'000;   // for what is already written
constexpr int kEndEnginesMs = 5'000;  // for engines that nobody asks any more

int as_int(int64_t value) { return static_cast<int>(std::min<int64_t>(value, std::numeric_limits<int>::max())); }

UpstreamLimits upstream_limits(const RouteOptions& options) {
  UpstreamLimits out;
  const RouteLimits& l = options.limits;
  out.connect_ms = as_int(l.connect_ms);
  out.first_byte_ms = as_int(l.first_byte_ms);
  out.stall_ms = as_int(l.stall_ms);
  out.dead_ms = as_int(l.dead_ms);
  out.kept_ms = as_int(l.kept_ms);
  out.n_kept = as_int(l.n_kept);
  out.http = options.http;
  return out;
}

Status check_policy(const std::string& name) {
  if (Registry<RoutePolicyEntry>::get().find(name) != nullptr) return {};
  std::string known;
  for (const std::string& one : Registry<RoutePolicyEntry>::get().names()) known += (known.empty() ? "" : ", ") + one;
  return fail(Code::invalid, "--policy is '" + name + "': it must be one of " + known);
}

Status check_health_path(const std::string& path) {
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f; };
  if (path.empty()) return {};
  if (path.starts_with('/') && split_target(path, false) && std::all_of(path.begin(), path.end(), is_plain)) return {};
  return fail(Code::invalid, "--health-path must be a path that begins with '/', got '" + shown(path) + "'");
}

bool any_over_tls(const RouteOptions& options) {
  const auto is_tls = [](const WorkerSpec& w) { return !w.at.tls_name.empty(); };
  return !options.worker_ca.empty() || options.workers_enter || std::ranges::any_of(options.workers, is_tls) ||
         std::ranges::any_of(options.names, is_tls);
}

LocalOptions local_options(const RouteOptions& options) {
  LocalOptions out = options.local;
  const RouteLimits& l = options.limits;
  out.start_ms = l.model_start_ms;
  out.stop_ms = l.model_stop_ms;
  out.reread_ms = l.model_look_ms;
  out.rules.wait_ms = l.model_wait_ms;
  out.rules.n_waiting = l.n_waiting;
  out.rules.rest_ms = l.eject_ms;
  out.rules.most_rest_ms = l.most_eject_ms;
  return out;
}

class RouteServerImpl final : public RouteServer {
 public:
  RouteServerImpl(const RouteOptions& options, Metrics& metrics)
      : limits_(options.limits),
        fleet_(std::make_shared<Fleet>(options.policy, limits_, clock_, metrics)),
        engines_(options.local.models.empty()
                     ? nullptr
                     : std::make_unique<LocalEngines>(local_options(options),
                                                      clock_,
                                                      metrics,
                                                      [this](const auto& listening) { set_local(listening); })),
        context_(limits_, clock_, metrics, fleet_, engines_.get()),
        front_(context_, metrics, options) {
    context_.worker_key = options.worker_key;
    context_.upstream = context_.probe = upstream_limits(options);
    context_.probe.first_byte_ms = context_.probe.stall_ms = as_int(limits_.probe_answer_ms);
    // Or a dribble would have no end.
    context_.probe.total_ms = as_int(context_.probe.connect_ms + int64_t{2} * context_.probe.stall_ms);
    if (!options.directory.redis.host.empty()) {
      DirectoryOptions directory = options.directory;
      directory.keep_s = limits_.session_s;
      context_.directory = std::make_unique<Directory>(directory, metrics);
      RedisOptions loads = directory.redis;
      loads.quiet = true;  // the directory says the same of it
      shared_loads_ = std::make_unique<SharedLoads>(
          loads, [this] { return fleet_->loads(); }, [this](const auto& others) { fleet_->set_others(others); },
          metrics);
    }
    fleet_->on_more([this] { context_.waiting.wake(); });
    set_workers(options.workers);
  }
  ~RouteServerImpl() override { stop(0); }

  Status start(const RouteOptions& options, Metrics& metrics) {
    if (any_over_tls(options)) {
      auto trust = TlsTrust::load(options.worker_ca);
      if (!trust) return error_within("--worker-ca", std::move(trust).error());
      context_.upstream.trust = context_.probe.trust = std::move(*trust);
    }
    if (!options.events.empty()) {
      context_.held_blocks = std::make_unique<KvIndex>(limits_.n_kv_blocks, secure_random_bits());
      context_.tokens = std::make_unique<TokenQuestions>(limits_.tokens_ms, context_.upstream, clock_, metrics);
      auto feeds = KvFeeds::start(options.events, fleet_, *context_.held_blocks, metrics);
      if (!feeds) return error_within("--worker-events", std::move(feeds).error());
      kv_feeds_ = std::move(*feeds);
    }
    QR_TRY(server_, Server::start(clients_server(options, metrics), front_.door()));
    if (options.admin_port >= 0) {
      QR_TRY(admin_, Server::start(operators_server(options, metrics), front_.admin_door()));
    }
    if (engines_ != nullptr && (options.local.reread || options.local.show))
      model_watch_ = std::make_unique<ModelWatch>(
          local_options(options), [this](std::vector<LocalModel> models) { engines_->set_models(std::move(models)); });
    prober_ = std::make_unique<Prober>(context_, *server_, options.health_path);
    if (!options.names.empty())
      discovery_ = std::make_unique<Discovery>(options.names, limits_.dns_ms, [this](const auto& found) {
        const std::lock_guard lock(mu_);
        found_ = found;
        set_all();
      });
    if (options.workers_enter) {
      RedisOptions redis = options.directory.redis;
      redis.quiet = true;  // the directory says the same of it
      entered_list_ = std::make_unique<WorkerList>(
          redis, EnteredWorkers(!options.worker_ca.empty()),
          [this](const WorkerSpec& worker) { return fleet_->is_up(worker.name()); },
          [this](const auto& found) {
            const std::lock_guard lock(mu_);
            entered_ = found;
            set_all();
          });
    }
    if (!options.services.empty()) {
      const auto changed = [this](const auto& found) {
        const std::lock_guard lock(mu_);
        pods_ = found;
        set_all();
      };
      auto kube = KubeDiscovery::start(*server_, options.services, options.kube_api, changed);
      if (!kube) return error_within("--discover", std::move(kube).error());
      kube_ = std::move(*kube);
    }
    return {};
  }

  int port() const override { return server_->port(); }
  std::string url() const override { return server_->url(); }
  std::string admin_url() const override { return admin_ != nullptr ? admin_->url() : ""; }
  void set_workers(const std::vector<WorkerSpec>& workers) override {
    const std::lock_guard lock(mu_);
    remote_ = workers;
    set_all();
  }

  void stop(int64_t drain_ms) override {
    if (server_ == nullptr) return;
    front_.drain();
    const int64_t until = clock_.now_ns() + drain_ms * kNsPerMs;
    for (int64_t seen = deadline_ns_; until < seen && !deadline_ns_.compare_exchange_weak(seen, until);) {
    }
    while (context_.n_under_way.load() > 0 && clock_.now_ns() < deadline_ns_) std::this_thread::sleep_for(kDrainPoll);
    server_->stop(drain_ms > 0 ? kLastBytesMs : 0);
    if (admin_ != nullptr) admin_->stop(0);
    if (engines_ != nullptr) engines_->stop(drain_ms > 0 ? kEndEnginesMs : 0);
  }

 private:
  void set_local(const std::vector<WorkerSpec>& listening) {
    {
      const std::lock_guard lock(mu_);
      local_ = listening;
      set_all();
    }
    context_.waiting.wake();  // whose engine is gone starts it anew
  }
  void set_all() {  // REQUIRES mu_
    std::vector<WorkerSpec> all = remote_;
    all.insert(all.end(), found_.begin(), found_.end());
    all.insert(all.end(), pods_.begin(), pods_.end());
    all.insert(all.end(), entered_.begin(), entered_.end());
    all.insert(all.end(), local_.begin(), local_.end());
    fleet_->set_workers(all);
  }

  SystemClock clock_;
  const RouteLimits limits_;
  const std::shared_ptr<Fleet> fleet_;
  std::mutex mu_;
  std::vector<WorkerSpec> remote_, found_, pods_, entered_, local_;  // guarded by mu_
  const std::unique_ptr<LocalEngines> engines_;  // outlives the requests that hold its leases; stop() ends its thread
  RouteContext context_;
  Front front_;
  std::atomic<int64_t> deadline_ns_{std::numeric_limits<int64_t>::max()};  // of the soonest stop()
  std::unique_ptr<Server> server_, admin_;                                 // their threads call the front
  std::unique_ptr<SharedLoads> shared_loads_;                              // null: no directory
  std::unique_ptr<Discovery> discovery_;
  std::unique_ptr<KubeDiscovery> kube_;
  std::unique_ptr<WorkerList> entered_list_;
  std::unique_ptr<KvFeeds> kv_feeds_;        // null: nobody listens
  std::unique_ptr<ModelWatch> model_watch_;  // null: what models there are stays, and nothing is read of them
  std::unique_ptr<Prober> prober_;  // destroyed first: its thread tells the server's; stop() ended those before
};

}  // namespace

Result<std::unique_ptr<RouteServer>> start_router(const RouteOptions& options, Metrics& metrics) {
  QR_TRY_VOID(check_policy(options.policy));
  QR_TRY_VOID(check_health_path(options.health_path));
  auto out = std::make_unique<RouteServerImpl>(options, metrics);
  QR_TRY_VOID(out->start(options, metrics));
  return out;
}

}  // namespace quire
