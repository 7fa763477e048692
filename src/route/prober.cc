#include "route/prober.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/log.h"
#include "base/nanoseconds.h"

namespace quire {
namespace {

constexpr int64_t kListEvery = 10;      // of so many probes one asks for the models too
constexpr size_t kMostBytes = 1 << 20;  // of an answer; a longer one says nothing
constexpr std::chrono::milliseconds kSweepEvery{100};

// One question, its answer gathered. Io thread.
class Question final : public UpstreamEvents, public std::enable_shared_from_this<Question> {
 public:
  using Done = std::function<void(int status, const std::string& body, const UpstreamError* error)>;
  explicit Question(Done done) : done_(std::move(done)) {}

  void on_head(UpstreamHead&& head) override { status_ = head.status; }
  bool on_body(std::string_view bytes) override {
    if (body_.size() + bytes.size() <= kMostBytes) {
      body_ += bytes;
      return true;
    }
    const auto self = shared_from_this();  // which the exchange lets go of
    std::exchange(exchange_, nullptr)->cancel();
    done_(status_, "", nullptr);
    return true;
  }
  void on_end(const UpstreamError* error) override {
    exchange_.reset();
    done_(status_, body_, error);
  }
  void ask(UpstreamRequest request, const UpstreamLimits& limits) {
    exchange_ = ask_upstream(std::move(request), limits, shared_from_this());
  }

 private:
  const Done done_;
  int status_ = 0;
  std::string body_;
  std::shared_ptr<Upstream> exchange_;
};

void ask_for(const Worker& worker, const std::string& path, const RouteContext& context, Question::Done done) {
  UpstreamRequest out;
  out.to = worker.spec.at;
  out.target = worker.spec.base + path;
  if (context.sends_key_to(worker.spec)) out.headers.push_back({"authorization", "Bearer " + context.worker_key});
  std::make_shared<Question>(std::move(done))->ask(std::move(out), context.probe);
}

// Why a worker cannot be reached: once, and again when the reason is another one.
void tell_unreached(Worker& worker, const UpstreamError* error) {
  const bool is_unreached = error != nullptr && error->fault == UpstreamFault::unreached;
  const std::string why = is_unreached ? error->message : "";
  if (!why.empty() && why != worker.unreached) log_warn("route: " + worker.name + ": " + why);
  worker.unreached = why;
}

// A worker that is busy answering others may be late about itself.
std::optional<Probe> judge(int status, const UpstreamError* error, bool progressed) {
  if (error == nullptr) return status < 500 ? Probe::well : Probe::unwell;
  if (error->fault == UpstreamFault::unreached) return Probe::unwell;
  if (error->fault == UpstreamFault::timeout && progressed) return std::nullopt;
  return Probe::silent;
}

Json::Array models_in(const std::string& body) {
  const Result<Json> list = Json::parse(body);
  const Json* data = list ? list->find("data") : nullptr;
  Json::Array out;
  if (data == nullptr || data->as_array() == nullptr) return out;
  for (const Json& model : *data->as_array())
    if (id_of(model) != nullptr) out.push_back(model);
  return out;
}

bool is_ours(const Json::Array& models) {
  const auto by_us = [](const Json& model) {
    const Json* owner = model.find("owned_by");
    return owner != nullptr && owner->as_string() != nullptr && *owner->as_string() == "quire";
  };
  return !models.empty() && std::all_of(models.begin(), models.end(), by_us);
}

}  // namespace

Prober::Prober(RouteContext& context, Server& server, std::string health_path)
    : context_(context),
      server_(server),
      health_path_(std::move(health_path)),
      replicas_({static_cast<double>(context.limits.replica_wait_ms) / 1000, ReplicaGoals().busy_share,
                 context.limits.replica_requests}),
      sweeper_(kSweepEvery, [this] { sweep(); }) {}

void Prober::sweep() {
  const int64_t now = context_.clock.now_ns(), every = context_.limits.probe_ms * kNsPerMs;
  for (const auto& worker : context_.fleet->workers()) {
    if (worker->next_probe_ns > now || worker->being_probed.exchange(true)) continue;
    worker->next_probe_ns = now + every;
    const bool models = worker->next_list_ns <= now;
    if (models) worker->next_list_ns = now + kListEvery * every;
    server_.post(
        [this, worker, models, flag = lower_at_end(worker->being_probed, worker)] { ask(worker, models, flag); });
  }
  replicas_.see(now, context_.fleet->work(context_.waiting.n_waiting()));
  context_.counters.desired_replicas.set(replicas_.desired());
  // Who waits for a local engine may have to have it started again.
  if (context_.waiting.n_waiting() > 0 && (context_.engines != nullptr || context_.fleet->any_usable()))
    context_.waiting.wake();
  context_.waiting.expire();
}

// First the list, so that a worker that comes up is known by its models.
void Prober::ask(const std::shared_ptr<Worker>& worker, bool models, const RaisedFlag& flag) {
  RouteContext& context = context_;
  if (models) {
    const auto listed = [this, worker, flag, &context](int status, const std::string& body,
                                                       const UpstreamError* error) {
      if (error == nullptr && status == 200) {
        Json::Array found = models_in(body);
        worker->is_ours.store(is_ours(found));
        worker->tells_load.store(true);
        context.fleet->set_models(*worker, std::move(found));
      }
      ask(worker, false, flag);
    };
    return ask_for(*worker, "/v1/models", context, listed);
  }
  const int64_t asked_ns = context.clock.now_ns();
  const auto answered = [worker, asked_ns, flag, &context](int status, const std::string&, const UpstreamError* error) {
    tell_unreached(*worker, error);
    const bool progressed = worker->progressed_ns.load(std::memory_order_relaxed) > asked_ns;
    if (const auto probe = judge(status, error, progressed)) context.fleet->probed(*worker, *probe);
  };
  const std::string path = health_path_.empty() ? worker->is_ours.load() ? "/ready" : "/health" : health_path_;
  ask_for(*worker, path, context, answered);
  if (worker->tells_load.load() && !worker->spec.is_local() && !worker->being_weighed.exchange(true))
    weigh(worker, lower_at_end(worker->being_weighed, worker));
}

// Who does not say it is asked again when its models are.
void Prober::weigh(const std::shared_ptr<Worker>& worker, const RaisedFlag& flag) {
  RouteContext& context = context_;
  const int64_t n_known = context.fleet->n_known(*worker);
  const bool ours = worker->is_ours.load();
  const auto answered = [worker, n_known, ours, flag, &context](int status, const std::string& body,
                                                                const UpstreamError* error) {
    std::optional<WorkerWord> word;
    if (error == nullptr && status == 200) word = ours ? word_of_load(body) : word_of_metrics(body);
    context.fleet->said(*worker, word, n_known);
    worker->tells_load.store(word.has_value());
  };
  ask_for(*worker, ours ? "/load" : "/metrics", context, answered);
}

}  // namespace quire
