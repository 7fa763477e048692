#include "serve/service.h"

#include <algorithm>
#include <ctime>
#include <new>

#include "base/nanoseconds.h"
#include "base/process_stats.h"
#include "base/rng.h"
#include "base/secure_random.h"
#include "base/thread.h"
#include "engine/policy.h"
#include "serve/adapters.h"
#include "serve/address.h"
#include "serve/answer_size.h"
#include "serve/call_plans.h"
#include "serve/grammar_cache.h"
#include "serve/llama_names.h"
#include "serve/response_store.h"
#include "serve/structured.h"
#include "serve/thinking.h"
#include "serve/vllm_names.h"

namespace quire {
namespace {

// JSON, or nothing said. What curl -d says without being told is taken too, unless a browser sent it: a page elsewhere
// may send forms to us without asking.
bool accepts_media(const HttpRequest& request) {
  const std::string* field = request.header("content-type");
  if (field == nullptr) return true;
  std::string_view type(*field);
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  if (equal_no_case(type, "application/json")) return true;
  return equal_no_case(type, "application/x-www-form-urlencoded") && request.header("origin") == nullptr;
}

std::vector<Token> end_ids(const Tokenizer& tokenizer) {
  std::vector<Token> out;
  for (Token id = 0; id < tokenizer.n_vocab(); ++id)
    if (tokenizer.is_end(id)) out.push_back(id);
  return out;
}

constexpr std::chrono::milliseconds kSweepEvery{500};
constexpr int kPrepNice = 5;  // beyond the engine's: a flood of prompts to be read holds up tokens less

// What stays when all clients have left, since it is kept for later requests.
void refresh_kept(Metrics& metrics, const ServeEnv& env) {
  const auto set = [&](const std::string& what, int64_t bytes, int64_t limit) {
    metrics.gauge("quire_kept_bytes", "Kept for later requests, by what it is.", {{"what", what}})
        .set(static_cast<double>(bytes));
    metrics.gauge("quire_kept_bytes_limit", "The most of quire_kept_bytes.", {{"what", what}})
        .set(static_cast<double>(limit));
  };
  if (env.grammars != nullptr) set("grammars", env.grammars->stats().bytes, env.grammars->max_bytes());
  if (env.call_plans != nullptr) set("tools", env.call_plans->stats().bytes, env.call_plans->max_bytes());
  if (env.responses != nullptr) set("responses", env.responses->bytes(), env.responses->max_bytes());
}

HttpError json_error(const Error& error) {
  if (error.code == Code::exhausted) return out_of_memory();
  return {400, error.message, "invalid_request_error", "", "invalid_json"};
}

// Whoever comes with another key shares no cached past, unknown keys of a server without one included: how soon the
// first token comes would tell what others asked. Never 0, which is everybody's.
uint64_t tenant_salt(std::string_view key, uint64_t salt) {
  uint64_t h = mix64(key.size());
  for (const char c : key) h = mix64(h ^ static_cast<unsigned char>(c));
  h = mix64(mix64(h) + salt);
  return h == 0 ? 1 : h;
}

static_assert(kMostDeadlineMs * kNsPerMs <= kMostDeadlineNs, "what a key file may say the engine takes");
static_assert(kMostKeyWeight <= kMostWeight, "what a key file may say the engine takes");

constexpr std::string_view kSaltHeader = "x-quire-cache-salt";

// As llama.cpp's server says it.
HttpError switched_off(const Endpoint& endpoint) {
  const std::string part(endpoint.part);
  return {501, "this server was started with --no-" + part + ": it does not answer at " + std::string(endpoint.path),
          "not_supported_error", "", "not_supported"};
}

}  // namespace

Service::Service(Engine& engine, Clock& clock, Metrics& metrics, ServiceOptions options)
    : engine_(engine),
      registry_(metrics),
      metrics_(metrics),
      env_(std::move(options.env)),
      machine_(options.machine),
      off_(std::move(options.off)),
      salt_name_(std::move(options.salt_name)),
      keys_(std::move(options.keys), metrics),
      door_(std::move(options.guard), [this](std::string_view code) { metrics_.count_rejected(code); }),
      admin_door_(std::move(options.admin_guard), [this](std::string_view code) { metrics_.count_rejected(code); }),
      streams_(clock, env_.limits),
      address_secret_(secure_random_bits()),
      queue_(static_cast<size_t>(std::max<int64_t>(env_.limits.prep_queue, 1))),
      sweeper_(kSweepEvery, [this] {
        streams_.expire();
        if (env_.responses != nullptr) env_.responses->expire();
        if (env_.grammars != nullptr) env_.grammars->sweep();
      }) {
  env_.ready = [this] { return ready_.load() && !draining_.load(); };
  env_.metrics_text = [this, llama = options.llama_metrics] {
    const EngineStats stats = engine_.stats();
    metrics_.refresh(stats, static_cast<int64_t>(queue_.size()));
    metrics_.refresh_tiers(stats);
    metrics_.refresh_pins(stats);
    metrics_.refresh_swaps(stats);
    metrics_.refresh_retention(stats);
    metrics_.refresh_drafters(stats, engine_.options().proposer);
    metrics_.refresh_machine(stats, machine_);
    refresh_process_stats(registry_);
    refresh_kept(registry_, env_);
    registry_.gauge("quire_answers_held_bytes", "Of answers_bytes, in use.")
        .set(static_cast<double>(context_.answers->held()));
    registry_.gauge("quire_requests_open", "Requests whose answer is not over, the one that asks among them.")
        .set(static_cast<double>(n_sessions()));
    const std::string ours = registry_.expose();
    std::string text = ours + vllm_lines(ours, env_.models.front());
    if (env_.adapters != nullptr) {
      text += vllm_adapter_lines(adapter_use(), env_.limits.n_adapters, std::time(nullptr));
      text += adapter_lines(env_.adapters->stats());
    }
    if (llama) text += llama_lines(stats, metrics_.n_tokens_max());
    return text;
  };
  env_.engine_stats = [this] { return engine_.stats(); };
  env_.requests = [this] { return requests(); };
  env_.pins = [this](uint64_t owner) { return engine_.pins(owner); };
  env_.unpin = [this](uint64_t id, uint64_t owner) { return engine_.unpin(id, owner); };
  env_.streams = &streams_;
  env_.salts = &salts_;
  context_ = {&engine_,       &clock,
              &env_,          &metrics_,
              &load_,         std::make_shared<AnswerBudget>(env_.limits.answers_bytes),
              options.tracer, end_ids(*env_.tokenizer)};
  add_routes(options.own_admin_address);
  metrics
      .gauge("quire_cache_config_info", "The cache's shape and order of eviction, as labels.",
             {{"block_size", std::to_string(engine.options().block_tokens)},
              {"kv_policy", engine.options().kv_policy},
              {"num_gpu_blocks", std::to_string(engine.stats().n_blocks)}})
      .set(1);
  for (int i = 0; i < std::max(1, options.n_prep_threads); ++i) prep_.emplace_back([this, i] { prepare_loop(i); });
}

Service::~Service() {
  queue_.close();
  for (std::thread& thread : prep_) thread.join();
}

bool Service::is_off(const Endpoint& endpoint) const {
  return !endpoint.part.empty() && std::ranges::find(off_, endpoint.part) != off_.end();
}

void Service::add_routes(bool own_admin_address) {
  for (const std::string& name : Registry<Api>::get().names()) {
    for (const Endpoint& endpoint : Registry<Api>::get().find(name)->endpoints) {
      if (endpoint.part == "ui" && is_off(endpoint)) continue;
      add_route(endpoint, endpoint.path, own_admin_address);
      if (!endpoint.also.empty()) add_route(endpoint, endpoint.also, own_admin_address);
    }
  }
}

void Service::add_route(const Endpoint& endpoint, std::string_view path, bool own_admin_address) {
  const auto route = [this, &endpoint](const HttpRequest& head) { return judge(endpoint, head); };
  if (endpoint.admin) return add_admin_route(door_, admin_door_, own_admin_address, {endpoint.method, path, route});
  if (endpoint.open) admin_door_.router().add(endpoint.method, path, route);
  door_.router().add(endpoint.method, path, route);
}

int64_t Service::n_sessions() const {
  std::lock_guard lock(mu_);
  return static_cast<int64_t>(sessions_.size());
}

std::vector<std::shared_ptr<Session>> Service::all_sessions() const {
  std::vector<std::shared_ptr<Session>> out;
  const std::lock_guard lock(mu_);
  out.reserve(sessions_.size());
  for (const auto& entry : sessions_) out.push_back(entry.second);
  return out;
}

AdapterUse Service::adapter_use() const {
  AdapterUse out(engine_.requests());
  for (const auto& session : all_sessions()) session->add_to(out);
  return out;
}

RequestList Service::requests() const {
  const std::vector<std::shared_ptr<Session>> sessions = all_sessions();
  RequestList out;
  out.engine = engine_.requests();
  out.now_ns = context_.clock->now_ns();
  out.n_unread = static_cast<int64_t>(queue_.size());
  out.lines.reserve(sessions.size());
  for (const auto& session : sessions)
    if (auto line = session->line(out.now_ns)) out.lines.push_back(std::move(*line));
  return out;
}

HttpError Service::shutdown_refusal() const {
  return {503, "the server is shutting down", "server_error", "", "shutting_down"};
}

// An endpoint without a schema has no use for a body.
Verdict Service::judge(const Endpoint& endpoint, const HttpRequest& head) {
  const auto admission = std::make_shared<Admission>();
  admission->refusal = check(endpoint, head, *admission);
  const bool reads_body = endpoint.schema != nullptr && !admission->refusal;
  return {[this, &endpoint, admission](HttpRequest&& request, ReplyPtr reply) {
            admit(endpoint, *admission, std::move(request), std::move(reply));
          },
          reads_body};
}

// The order of checks behind the path's; the limits of the key come last, so that only what may run is charged.
std::optional<KeyRefusal> Service::check(const Endpoint& endpoint,
                                         const HttpRequest& head,
                                         Admission& admission) const {
  if (auto refusal = check_key(endpoint, head, admission)) return refusal;
  if (is_off(endpoint)) return KeyRefusal{switched_off(endpoint)};
  if (endpoint.schema != nullptr && !accepts_media(head)) return KeyRefusal{wrong_media_type()};
  if (endpoint.quick) return std::nullopt;
  if (draining_) return KeyRefusal{shutdown_refusal()};
  if (admission.key == nullptr || endpoint.uncounted) return std::nullopt;
  return admission.key->enter(context_.clock->now_ns(), admission.lease);
}

std::optional<KeyRefusal> Service::check_key(const Endpoint& endpoint,
                                             const HttpRequest& head,
                                             Admission& admission) const {
  if (endpoint.open || keys_.empty()) return std::nullopt;
  return keys_.check(sha256(sent_key(head)), endpoint.admin, !endpoint.quick, admission.key);
}

std::shared_ptr<Session> Service::open_session(const Endpoint& endpoint, const HttpRequest& request, ReplyPtr reply) {
  auto session = std::make_shared<Session>(context_, endpoint, reply, request.arrived_ns);
  session->set_origin(env_.seeds->id(), request.peer);
  if (const std::string* parent = context_.tracer != nullptr ? request.header("traceparent") : nullptr)
    session->set_trace_parent(parse_traceparent(*parent));
  reply->on_close([this, weak = std::weak_ptr(session)](CloseReason reason) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->on_closed(reason);
    close_session(self.get());
  });
  std::lock_guard lock(mu_);
  sessions_.emplace(session.get(), session);  // last: if it throws, nothing keeps the session
  return session;
}

void Service::close_session(const Session* session) {
  std::lock_guard lock(mu_);
  sessions_.erase(session);
  if (sessions_.empty()) no_sessions_.notify_all();
}

// Io thread. What is thrown is memory that is not there: this request's error.
void Service::admit(const Endpoint& endpoint, Admission& admission, HttpRequest&& request, ReplyPtr reply) {
  bool no_memory = false;
  try {
    return try_admit(endpoint, admission, std::move(request), reply);
  } catch (const std::bad_alloc&) {
    no_memory = true;
  } catch (const std::exception&) {
    no_memory = false;
  }
  try {
    send_error(*reply, no_memory ? out_of_memory() : internal_error(), {{"Retry-After", "1"}}, endpoint.path);
  } catch (const std::exception&) {
    reply->abort();
  }
}

// The server may have begun to stop while the body came.
void Service::try_admit(const Endpoint& endpoint, Admission& admission, HttpRequest&& request, ReplyPtr reply) {
  if (!admission.refusal && !endpoint.quick && draining_) admission.refusal = KeyRefusal{shutdown_refusal()};
  const Asker who = asker(request, admission.key.get());
  const bool resumable = !admission.refusal && !endpoint.quick && request.header(kResumableHeader) != nullptr;
  if (resumable) reply = make_resumable(who, std::move(reply));
  const auto session = open_session(endpoint, request, reply);
  if (admission.key != nullptr) session->set_key(std::move(admission.key), std::move(admission.lease));
  if (const auto& refusal = admission.refusal) return session->refuse_with(refusal->error, refusal->retry_after_s);
  Work work{&endpoint, std::move(request), who, session};
  if (endpoint.quick) return quick(endpoint, work, reply);
  session->set_progress(RequestStage::queued);
  if (const auto error = enqueue(std::move(work))) session->refuse_with(*error);
}

// A key that was checked is who it is. Otherwise whatever key was sent separates, but proves nothing.
Asker Service::asker(const HttpRequest& request, const KeyHolder* key) const {
  const std::string* origin = request.header("origin");
  const std::string page = origin != nullptr ? *origin : "";
  if (key != nullptr) return {key->number(), key->number(), page, false};
  const std::string_view sent = sent_key(request);
  return {sent.empty() ? 0 : tenant_salt(sent, 0), address_number(request.peer, address_secret_), page, true};
}

ReplyPtr Service::make_resumable(const Asker& asker, ReplyPtr reply) {
  StreamName name{"strm_" + env_.seeds->id(), asker, asker.asks_secret ? env_.seeds->id() : ""};
  const auto stream = std::make_shared<ResumableStream>(std::move(name), reply, env_.limits.resumable_bytes);
  if (!streams_.add(stream)) {
    reply->add_header(kResumableHeader, "0");
    return reply;
  }
  stream->open();
  return stream;
}

// A body that is alone may be of any size that http lets through.
std::optional<HttpError> Service::enqueue(Work&& work) {
  const auto bytes = static_cast<int64_t>(work.request.body.size());
  const int64_t waiting = waiting_bytes_.fetch_add(bytes);
  const bool fits = waiting == 0 || waiting + bytes <= env_.limits.prep_bytes;
  try {
    const uint64_t tenant = work.asker.tenant;
    if (fits && queue_.try_push(tenant, std::move(work))) return std::nullopt;
  } catch (const std::bad_alloc&) {
    waiting_bytes_ -= bytes;
    return out_of_memory();
  }
  waiting_bytes_ -= bytes;
  const std::string limit = fits ? std::to_string(queue_.capacity()) + " requests (prep_queue)"
                                 : std::to_string(env_.limits.prep_bytes) + " bytes of requests (prep_bytes)";
  const std::string whose =
      fits && queue_.size() < queue_.capacity() ? ": the places that are left are for other clients" : "";
  return HttpError{429, "the limit of " + limit + " that wait to be read is reached" + whose, "rate_limit_error", "",
                   "queue_full"};
}

void Service::quick(const Endpoint& endpoint, const Work& work, const ReplyPtr& reply) {
  Session& session = *work.session;
  const Args none;
  Warnings warnings;
  const auto call = endpoint.parse({work.request, none, {env_.limits, warnings}, work.asker}, env_);
  if (!call) return session.refuse_with(call.error());
  if (const auto* taken = std::get_if<TakeUp>(&*call)) return take_up(*taken, session, reply);
  QR_CHECK(std::holds_alternative<Answer>(*call), "a quick endpoint gives an answer");
  session.answer(std::get<Answer>(*call), {});
}

// From here on the reply is the stream's: how it ends is for the session that the stream belongs to.
void Service::take_up(const TakeUp& taken, Session& session, const ReplyPtr& reply) {
  struct Closing {
    Closing(Service& s, const Session& of) : service(s), session(of) {}
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;
    ~Closing() { service.close_session(&session); }
    Service& service;
    const Session& session;
  };
  reply->on_close([](CloseReason) {});
  const Closing closing(*this, session);  // also where there is no memory to go on with the stream
  if (const auto error = taken.stream->resume(taken.after, reply)) session.refuse_with(*error);
}

void Service::prepare_loop(int index) {
  set_thread_name("quire-prep-" + std::to_string(index));
  step_behind_others(kPrepNice);
  while (auto work = queue_.pop()) {
    waiting_bytes_ -= static_cast<int64_t>(work->request.body.size());
    prepare(*work);
  }
}

// What is thrown here is memory that is not there: it ends this request and nobody else's.
void Service::prepare(Work& work) {
  bool no_memory = false;
  try {
    return try_prepare(work);
  } catch (const std::bad_alloc&) {
    no_memory = true;
  } catch (const std::exception&) {
    no_memory = false;
  }
  try {
    work.session->fail_early(no_memory ? out_of_memory() : internal_error());
  } catch (const std::exception&) {
    work.session->cut();
  }
}

ApiResult<Call> Service::parse(const Work& work, HttpHeaders& headers) const {
  const Endpoint& endpoint = *work.endpoint;
  Warnings warnings;
  const Reading reading{env_.limits, warnings};
  Json body;
  Args args;
  if (endpoint.schema != nullptr) {
    auto parsed = Json::parse(work.request.body);
    if (!parsed) return refuse(json_error(parsed.error()));
    body = std::move(*parsed);
    QR_TRY(args, endpoint.schema->check(body, reading, ""));
  }
  auto call = endpoint.parse({work.request, args, reading, work.asker}, env_);
  if (call) {
    if (Job* job = std::get_if<Job>(&*call)) {
      if (job->generation.grammar) work.session->set_progress(RequestStage::compiled);
      QR_TRY_VOID(constrain(env_, *job, warnings));
      QR_TRY_VOID(limit_thinking(env_, *job));
    }
  }
  if (std::string text = warnings.text(); !text.empty())
    headers.push_back({std::string(kWarningHeader), std::move(text)});
  return call;
}

// The answer may be at most what is left of the context; a prompt that leaves nothing is refused.
std::optional<HttpError> Service::check_context(const Job& job) const {
  const int64_t n_before = job.generation.n_virtual();
  const std::string taken = n_before > 0 ? ", the prefix takes " + std::to_string(n_before) : "";
  for (size_t i = 0; i < job.prompts.size(); ++i) {
    const auto n = static_cast<int64_t>(job.prompts[i].size());
    if (n + n_before < env_.n_ctx) continue;
    const std::string field =
        job.prompts.size() > 1 ? at_index(job.prompt_field, static_cast<int64_t>(i)) : job.prompt_field;
    HttpError error = bad_field(
        field,
        (job.pool != Pool::none ? "is too large: it has " : "has ") + std::to_string(n) +
            " tokens: this model's maximum context length is " + std::to_string(env_.n_ctx) + " tokens" + taken +
            ", of which at least one is for the answer; the prompt exceeds the available context size",
        "context_length_exceeded");
    error.type = "exceed_context_size_error";
    error.numbers = {{"n_prompt_tokens", n + n_before}, {"n_ctx", env_.n_ctx}};
    return error;
  }
  return std::nullopt;
}

void Service::try_prepare(Work& work) {
  Session& session = *work.session;
  if (session.closed()) return;
  session.set_progress(RequestStage::read);
  HttpHeaders headers;
  auto call = parse(work, headers);
  if (!call) return session.refuse_with(call.error());
  if (const auto* answer = std::get_if<Answer>(&*call)) return session.answer(*answer, std::move(headers));
  Job& job = std::get<Job>(*call);
  job.headers.insert(job.headers.end(), headers.begin(), headers.end());
  if (const auto error = check_context(job)) return session.refuse_with(*error);
  if (const auto error = bound_answer(env_, job)) return session.refuse_with(*error);
  set_salts(work, job);
  if (const uint64_t salt = job.generation.cache_salt; salt_name_ && salt != 0)
    job.headers.push_back({std::string(kSaltHeader), salt_name_(salt)});
  job.tenant = work.asker.tenant;
  session.start(std::move(job));
}

// A key separates whatever salts its requests name.
void Service::set_salts(const Work& work, Job& job) {
  uint64_t& salt = job.generation.cache_salt;
  if (!work.asker.asks_secret && !job.explain) salts_.note(work.asker.owner, salt);
  const auto key = sent_key(work.request);
  if (key.empty()) return;
  salt = tenant_salt(key, salt);
  if (!job.explain) return;
  for (ExplainWish::Root& root : job.explain->others) root.salt = tenant_salt(key, root.salt);
}

void Service::drain(int64_t ms) {
  using Clk = std::chrono::steady_clock;
  draining_ = true;
  streams_.give_up_all();
  std::unique_lock lock(mu_);
  drain_until_ = std::min(drain_until_, Clk::now() + std::chrono::milliseconds(ms));
  no_sessions_.notify_all();
  while (!sessions_.empty() && Clk::now() < drain_until_) no_sessions_.wait_until(lock, drain_until_);
  std::vector<std::shared_ptr<Session>> left;
  left.reserve(sessions_.size());
  for (const auto& entry : sessions_) left.push_back(entry.second);
  lock.unlock();
  for (const auto& session : left) session->shut_down();
}

}  // namespace quire
