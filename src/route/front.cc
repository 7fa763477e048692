#include "route/front.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "route/engine_pages.h"
#include "route/refusal.h"
#include "route/session_key.h"
#include "route/worker_metrics.h"

namespace quire {
namespace {

struct Passed {
  std::string_view method, path;
};
// Of OpenAI's, Anthropic's and Ollama's dialects and what engines have beside them. Nothing that changes a worker.
constexpr Passed kPassed[] = {
    {"POST", "/v1/chat/completions"},
    {"POST", "/chat/completions"},
    {"POST", "/v1/completions"},
    {"POST", "/v1/responses"},
    {"GET", "/v1/responses/*"},
    {"DELETE", "/v1/responses/*"},
    {"POST", "/v1/embeddings"},
    {"POST", "/v1/messages"},
    {"POST", "/v1/messages/count_tokens"},
    {"GET", "/v1/streams/*"},
    {"DELETE", "/v1/streams/*"},
    {"POST", "/v1/rerank"},
    {"POST", "/v1/score"},
    {"POST", "/api/chat"},
    {"POST", "/api/generate"},
    {"POST", "/api/embed"},
    {"POST", "/api/embeddings"},
    {"POST", "/api/show"},
    {"GET", "/api/ps"},
    {"GET", "/api/version"},
    {"POST", "/generate"},
    {"POST", "/infill"},
    {"POST", "/completion"},
    {"POST", "/completions"},
    {"POST", "/embedding"},
    {"POST", "/embeddings"},
    {"POST", "/tokenize"},
    {"POST", "/detokenize"},
    {"POST", "/apply-template"},
    {"GET", "/props"},
    {"GET", "/slots"},
    {"GET", "/tokenizer_info"},
    {"GET", "/openapi.json"},
    {"GET", "/"},
    {"GET", "/page/*"},
    {"GET", "/engine"},
};
// Of them those that need no key at a worker of ours.
constexpr std::string_view kOpen[] = {"/", "/page/*", "/openapi.json"};

// Answered here where there are local engines: they are of all models, or need none that is loaded.
constexpr std::string_view kOfAll[] = {"/api/ps", "/api/show", "/api/version"};

constexpr const char* kJson = "application/json";

void send_json(const ReplyPtr& reply, const Json& value) { reply->send(200, {{"Content-Type", kJson}}, value.dump()); }

// A page elsewhere may send forms without asking, and no worker learns where it came from.
bool is_foreign_form(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  return request.method == "POST" && request.header("origin") != nullptr &&
         (type == nullptr || !equal_no_case(std::string_view(*type).substr(0, std::string_view(kJson).size()), kJson));
}

Verdict refuse_with(KeyRefusal refusal) {
  return {[refusal = std::move(refusal)](const HttpRequest& request, const ReplyPtr& reply) {
            send_error(*reply, refusal.error, retry_after(refusal), request.path);
          },
          false};
}

GuardOptions guard_at(GuardOptions guard, const std::string& host) {
  guard.loopback = is_loopback(host);
  return guard;
}

}  // namespace

Front::Front(RouteContext& context, Metrics& metrics, const DoorOptions& options)
    : context_(context),
      metrics_(metrics),
      keys_(options.keys, metrics),
      own_admin_address_(options.admin_port >= 0),
      door_(guard_at(options.guard, options.host), [](std::string_view) {}),
      admin_door_({is_loopback(options.operators_host()), options.guard.hosts, {}}, [](std::string_view) {}) {
  add_passed_on();
  add_own();
  if (context_.engines != nullptr) add_engines();
}

void Front::add(std::string_view method, std::string_view path, Scope scope, Verdict::Answer answer) {
  const auto route = [this, scope, answer = std::move(answer)](const HttpRequest& head) {
    return judge(scope, head, answer);
  };
  if (scope == Scope::admin) return add_admin_route(door_, admin_door_, own_admin_address_, {method, path, route});
  if (scope == Scope::open) admin_door_.router().add(method, path, route);
  door_.router().add(method, path, route);
}

void Front::add_passed_on() {
  for (const Passed& passed : kPassed) {
    if (context_.engines != nullptr && std::find(std::begin(kOfAll), std::end(kOfAll), passed.path) != std::end(kOfAll))
      continue;
    const bool open = std::find(std::begin(kOpen), std::end(kOpen), passed.path) != std::end(kOpen);
    door_.router().add(passed.method, passed.path, [this, open](const HttpRequest& head) {
      return pass_on(open ? Scope::open : Scope::inference, head);
    });
  }
}

void Front::add_own() {
  const auto health = [](HttpRequest&&, const ReplyPtr& reply) {
    reply->send(200, {{"Content-Type", kJson}}, R"({"status":"ok"})");
  };
  add("GET", "/health", Scope::open, health);
  add("GET", "/ready", Scope::open, [this](HttpRequest&&, const ReplyPtr& reply) { ready(reply); });
  const auto list = [this](const HttpRequest& request, const ReplyPtr& reply) { models(request, reply); };
  add("GET", "/v1/models", Scope::inference, list);
  add("GET", "/v1/models/*", Scope::inference, list);
  add("GET", "/api/tags", Scope::inference, [this](HttpRequest&&, const ReplyPtr& reply) { tags(reply); });
  add("GET", "/workers", Scope::admin, [this](HttpRequest&&, const ReplyPtr& reply) { workers(reply); });
  add("GET", "/metrics", Scope::admin, [this](HttpRequest&&, const ReplyPtr& reply) { metrics(reply); });
}

std::optional<KeyRefusal> Front::check_key(Scope scope, const HttpRequest& head, RouteAsker& asker) const {
  const std::string_view sent = sent_key(head);
  const Sha256 hash = sha256(sent);
  if (!sent.empty()) asker.tenant = tenant_of(hash);
  if (scope == Scope::open) return std::nullopt;
  return keys_.check(hash, scope == Scope::admin, scope == Scope::inference, asker.key);
}

Verdict Front::judge(Scope scope, const HttpRequest& head, const Verdict::Answer& answer) {
  RouteAsker asker;
  if (auto refusal = check_key(scope, head, asker)) return refuse_with(std::move(*refusal));
  return {answer, false};
}

// The limits of the key come last, so that only what may run is charged.
Verdict Front::pass_on(Scope scope, const HttpRequest& head) {
  const auto asker = std::make_shared<RouteAsker>();
  if (auto refusal = check_key(scope, head, *asker)) return refuse_with(std::move(*refusal));
  if (is_foreign_form(head)) return refuse_with({wrong_media_type()});
  if (draining_) return refuse_with({stopping()});
  if (asker->key != nullptr)
    if (auto refusal = asker->key->enter(context_.clock.now_ns(), asker->lease))
      return refuse_with(std::move(*refusal));
  return {[this, asker](HttpRequest&& request, ReplyPtr reply) {
            const auto one =
                std::make_shared<Proxied>(context_, std::move(request), std::move(reply), std::move(*asker));
            // Counted as under way by now: stop() sees it, or this sees stop(), which may have begun while the body
            // came.
            if (draining_) return one->refuse(stopping(), {{"Retry-After", "1"}});
            one->start();
          },
          true};
}

void Front::ready(const ReplyPtr& reply) const {
  if (!draining_ && (context_.engines != nullptr || context_.fleet->any_usable()))
    return send_json(reply, Json::Object{{"status", "ready"}});
  const HttpError nobody{503, "no worker can be given requests", "server_error", "", "no_worker"};
  send_error(*reply, draining_ ? stopping() : nobody, {{"Retry-After", "1"}});
}

void Front::models(const HttpRequest& request, const ReplyPtr& reply) const {
  constexpr std::string_view kPrefix = "/v1/models/";
  Json::Array all = all_models();
  if (!request.path.starts_with(kPrefix)) {
    Json list = Json::Object{{"object", "list"}};
    list.set("data", std::move(all));
    return send_json(reply, list);
  }
  const std::string_view name = std::string_view(request.path).substr(kPrefix.size());
  for (const Json& model : all)
    if (*id_of(model) == name) return send_json(reply, model);
  send_error(*reply, unknown_model(name, "here"));
}

Json::Array Front::all_models() const {
  if (context_.engines == nullptr) return context_.fleet->models();
  return model_entries(context_.engines->states(), context_.fleet->models());
}

// With a body; not from a form of another page.
void Front::add_posted(std::string_view path, Verdict::Answer answer) {
  door_.router().add("POST", path, [this, answer = std::move(answer)](const HttpRequest& head) {
    RouteAsker asker;
    if (auto refusal = check_key(Scope::inference, head, asker)) return refuse_with(std::move(*refusal));
    if (is_foreign_form(head)) return refuse_with({wrong_media_type()});
    return Verdict{answer, true};
  });
}

// llama.cpp's paths, and those of Ollama that are not of one model.
void Front::add_engines() {
  const auto list = [this](const HttpRequest& request, const ReplyPtr& reply) { models(request, reply); };
  add("GET", "/models", Scope::inference, list);
  add("GET", "/api/ps", Scope::inference, [this](HttpRequest&&, const ReplyPtr& reply) {
    send_json(reply, Json::Object{{"models", ps_entries(context_.engines->states(), std::time(nullptr))}});
  });
  add("GET", "/api/version", Scope::open,
      [](HttpRequest&&, const ReplyPtr& reply) { send_json(reply, Json::Object{{"version", QR_VERSION}}); });
  door_.router().add("POST", "/api/show", [this](const HttpRequest& head) {
    const Verdict passed = pass_on(Scope::inference, head);
    if (!passed.reads_body) return passed;
    return Verdict{[this, passed](HttpRequest&& request, ReplyPtr reply) {
                     show_model(std::move(request), std::move(reply), passed);
                   },
                   true};
  });
  for (const bool load : {true, false})
    add_posted(
        load ? "/models/load" : "/models/unload",
        [this, load](const HttpRequest& request, const ReplyPtr& reply) { change_engine(request, reply, load); });
}

// Of a model of this machine without loading it. Other workers know theirs, and what names none is refused as it is of
// any other path.
void Front::show_model(HttpRequest&& request, ReplyPtr reply, const Verdict& passed) const {
  const Result<Json> body = Json::parse(request.body);
  const Json* named = body ? body->find("model") : nullptr;
  if (named == nullptr && body) named = body->find("name");
  const std::string* name = named != nullptr ? named->as_string() : nullptr;
  const auto at = name != nullptr ? context_.engines->find(*name) : std::nullopt;
  if (!at) return passed.answer(std::move(request), std::move(reply));
  reply->send(200, {{"Content-Type", kJson}}, show_page(context_.engines->state(*at)));
}

void Front::change_engine(const HttpRequest& request, const ReplyPtr& reply, bool load) const {
  LocalEngines& engines = *context_.engines;
  const Result<Json> body = Json::parse(request.body);
  const Json* model = body ? body->find("model") : nullptr;
  const std::string* name = model != nullptr ? model->as_string() : nullptr;
  const auto at = name != nullptr ? engines.find(*name) : std::nullopt;
  std::optional<HttpError> error;
  if (name == nullptr) {
    error = {400, "model is required: the name of one that /v1/models lists", "invalid_request_error", "model",
             "missing_required_parameter"};
  } else if (!at) {
    error = unknown_model(*name, "on this machine");
  } else if (!load) {
    engines.unload(*at);
  } else if (const auto refusal = engines.load(*at)) {
    error = {503, "the model '" + *name + "' cannot be used now: " + refusal->why, "server_error", "model",
             "model_unavailable"};
  }
  if (!error) return send_json(reply, Json::Object{{"success", true}});
  send_error(*reply, *error, {});
}

// As Ollama lists them.
void Front::tags(const ReplyPtr& reply) const {
  Json::Array out;
  std::vector<LocalModelState> local;
  if (context_.engines != nullptr) local = context_.engines->states();
  out = tag_entries(local);
  for (const Json& model : context_.fleet->models()) {
    const std::string& name = *id_of(model);
    const auto is_local = [&](const LocalModelState& m) {
      return m.name == name && (!m.gone || m.state != EngineState::off);
    };
    if (std::ranges::any_of(local, is_local)) continue;
    out.push_back(Json::Object{{"name", name}, {"model", name}});
  }
  send_json(reply, Json::Object{{"models", std::move(out)}});
}

void Front::workers(const ReplyPtr& reply) const {
  Json::Array out;
  for (const WorkerState& w : context_.fleet->states())
    out.push_back(Json::Object{{"name", w.name},
                               {"up", w.up},
                               {"ejected", w.ejected},
                               {"usable", w.usable},
                               {"load_tokens", w.load_tokens},
                               {"requests", w.n_requests},
                               {"others_load_tokens", w.others_tokens},
                               {"unseen_requests", w.unseen_requests},
                               {"requests_total", static_cast<int64_t>(w.n_given)},
                               {"failures_total", static_cast<int64_t>(w.n_failures)}});
  send_json(reply, Json::Object{{"workers", std::move(out)}, {"waiting", context_.waiting.n_waiting()}});
}

void Front::metrics(const ReplyPtr& reply) {
  metrics_.gauge("quire_route_waiting", "Requests that wait for a worker.")
      .set(static_cast<double>(context_.waiting.n_waiting()));
  std::vector<WorkerFacts> workers;
  for (WorkerState& state : context_.fleet->states()) {
    WorkerFacts& facts = workers.emplace_back(WorkerFacts{std::move(state), std::nullopt});
    if (context_.held_blocks != nullptr) facts.held = context_.held_blocks->state(facts.state.id);
  }
  if (context_.engines != nullptr)
    for (const LocalModelState& m : context_.engines->states())
      metrics_.gauge("quire_engine_loaded", "Whether the model's engine runs and listens.", {{"model", m.name}})
          .set(m.state == EngineState::on ? 1 : 0);
  reply->send(200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
              metrics_.expose() + worker_metrics(workers));
}

}  // namespace quire
