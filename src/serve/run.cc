#include "serve/run.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <new>

#include "http/server.h"
#include "serve/call_plans.h"
#include "serve/grammar_cache.h"
#include "serve/model_chat.h"
#include "serve/public_prompts.h"
#include "serve/response_store.h"
#include "serve/seeds.h"
#include "serve/service.h"
#include "serve/warm_prompts.h"
#include "text/chat_prompt.h"
#include "text/reasoning.h"
#include "text/told_tools.h"

namespace quire {
namespace {

constexpr int kLastBytesMs = 2'000;  // for what is already written, once no request runs any more

// What one sequence can hold: the model's context, or all blocks where these are fewer.
int64_t context_tokens(const Engine& engine) {
  const EngineOptions& options = engine.options();
  const EngineStats stats = engine.stats();
  const int64_t in_blocks = (int64_t{stats.n_blocks} - stats.n_learned_blocks) * options.block_tokens;
  return in_blocks > 0 ? std::min<int64_t>(options.n_ctx, in_blocks) : options.n_ctx;
}

// Whether `text` begins with a control token.
bool is_control(const Tokenizer& tokenizer, std::string_view text) {
  const TokenizerSpec& spec = tokenizer.spec();
  for (size_t i = 0; i < spec.types.size(); ++i)
    if (spec.types[i] == TokenType::control && !spec.tokens[i].empty() && text.starts_with(spec.tokens[i])) return true;
  return false;
}

Status check_tool_format(const std::string& name) {
  if (name.empty() || find_call_form(name) != nullptr) return {};
  std::string known;
  for (const std::string& one : Registry<CallForm>::get().names()) known += (known.empty() ? "" : ", ") + one;
  return fail(Code::invalid, "--tool-format is '" + name + "': it must be one of " + known);
}

// `asked`: in place of the model's `source`; empty: nothing is.
Result<ModelChat> make_chat(const std::string& asked, const std::string& source) {
  if (asked.empty()) return model_chat(source);
  auto given = ChatTemplate::parse(asked);
  if (given) return ModelChat{std::move(*given), asked, false};
  return fail(Code::invalid, "--chat-template: " + given.error().message);
}

// Who answers at an address: nobody yet, then the service.
class Gate final : public Handler {
 public:
  Verdict judge(const HttpRequest& head) override {
    Handler* const open = target_.load(std::memory_order_acquire);
    if (open != nullptr) return open->judge(head);
    return {[](HttpRequest&& request, const ReplyPtr& reply) {
              send_error(*reply, {503, "Loading model", "unavailable_error", "", "loading_model"},
                         {{"Retry-After", "1"}}, request.path);
            },
            false};
  }
  void open(Handler& handler) { target_.store(&handler, std::memory_order_release); }

 private:
  std::atomic<Handler*> target_{nullptr};
};

// One gate, and a server at each of its addresses.
struct Address {
  Gate gate;
  std::vector<std::unique_ptr<Server>> servers;  // destroyed first: their threads ask the gate; never empty

  Server& first() const { return *servers.front(); }
  // At each host of a list with commas. Port 0: any free one at the first, and that at the others.
  Status start(ServerOptions options) {
    const std::string hosts = std::exchange(options.host, "");
    for (size_t at = 0; at <= hosts.size();) {
      const size_t end = std::min(hosts.find(',', at), hosts.size());
      options.host = hosts.substr(at, end - at);
      at = end + 1;
      if (options.host.empty()) return fail(Code::invalid, "--host: an address in \"" + hosts + "\" is empty");
      QR_TRY(servers.emplace_back(), Server::start(options, gate));
      options.port = first().port();
    }
    return {};
  }
  void stop(int ms) const {
    for (const auto& server : servers) server->stop(ms);
  }
};

// Of a list with commas: whether nobody but this machine reaches any of them.
bool all_loopback(std::string_view hosts) {
  for (size_t at = 0; at <= hosts.size();) {
    const size_t end = std::min(hosts.find(',', at), hosts.size());
    if (!is_loopback(hosts.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

class ServingImpl final : public Serving {
 public:
  ServingImpl(const ServeOptions& options, const Tokenizer& tokenizer, ModelChat chat, StepSignal& signal)
      : seeds_(options.random),
        chat_(std::move(chat)),
        responses_(options.limits, clock_),
        grammars_(tokenizer, options.limits.grammar_bytes),
        signal_(signal) {
    env_.tokenizer = &tokenizer;
    env_.chat = &chat_.chat;
    env_.chat_source = chat_.source;
    env_.plain_chat = chat_.plain;
    env_.seeds = &seeds_;
    env_.responses = &responses_;
    env_.grammars = &grammars_;
    env_.call_plans = &call_plans_;
    env_.reasoning = find_reasoning_form(tokenizer, chat_.source);
    env_.fill = find_fill_tokens(tokenizer);
    find_tools(options, tokenizer);
    env_.limits = options.limits;
    env_.models = options.models;
    env_.prefixes = options.prefixes;
    env_.adapters = options.adapters;
    env_.no_adapters = options.no_adapters;
    env_.strict_model = options.strict_model;
    env_.card = options.card;
    env_.sampling = options.sampling;
    env_.chat_defaults = options.chat_defaults;
    env_.pooling = options.pooling;
    env_.request_log = options.request_log;
    env_.started_s = std::time(nullptr);
    public_prompts_ = PublicPrompts(options.public_prompts, env_);
    env_.public_prompts = &public_prompts_;
  }
  ~ServingImpl() override { stop(0); }

  Status start(const ServeOptions& options,
               Engine& engine,
               Metrics& metrics,
               std::unique_ptr<Address> door,
               std::unique_ptr<Address> admin) {
    env_.n_ctx = context_tokens(engine);
    env_.engine = &engine.options();
    QR_TRY_VOID(warm_up(options.warm_prompts, env_, engine, public_prompts_));
    if (!options.traces.host.empty()) tracer_ = std::make_shared<Tracer>(options.traces, metrics);
    ServiceOptions service;
    service.tracer = tracer_;
    service.env = env_;
    service.keys = options.keys;
    service.machine = options.machine;
    service.guard = options.guard;
    service.own_admin_address = options.admin_port >= 0;
    service.n_prep_threads = options.n_prep_threads;
    service.guard.loopback = all_loopback(options.host);
    service.llama_metrics = options.llama_metrics;
    service.off = options.off;
    service.salt_name = options.salt_name;
    service.admin_guard.hosts = options.guard.hosts;
    service.admin_guard.loopback = is_loopback(options.operators_host());
    service_ = std::make_unique<Service>(engine, clock_, metrics, std::move(service));
    door_ = std::move(door);
    admin_ = std::move(admin);
    door_->gate.open(service_->door());
    if (admin_ != nullptr) admin_->gate.open(service_->admin_door());
    for (const auto& server : door_->servers) signal_.watch(server.get());
    service_->set_ready();
    return {};
  }

  int port() const override { return door_->first().port(); }
  std::string url() const override { return door_->first().url(); }
  std::string admin_url() const override { return admin_ != nullptr ? admin_->first().url() : ""; }

  void stop(int64_t drain_ms) override {
    if (service_ == nullptr || door_ == nullptr) return;
    service_->drain(drain_ms);
    door_->stop(kLastBytesMs);
    if (admin_ != nullptr) admin_->stop(0);
    signal_.forget();
  }

 private:
  void find_tools(const ServeOptions& options, const Tokenizer& tokenizer) {
    env_.tools = find_tool_format(chat_.chat, special_tokens(tokenizer));
    if (!options.tool_format.empty() || !env_.tools.takes_tools) {
      env_.tools.name = options.tool_format.empty() ? std::string(kToldForm) : options.tool_format;
      env_.tools.form = find_call_form(env_.tools.name);
    }
    env_.tools.told = !env_.tools.takes_tools && env_.tools.name == kToldForm;
    env_.hidden_calls = env_.tools.form != nullptr && is_control(tokenizer, env_.tools.form->trigger);
  }

  SystemClock clock_;
  SeedSource seeds_;
  ModelChat chat_;
  PublicPrompts public_prompts_;
  ResponseStore responses_;
  GrammarCache grammars_;
  CallPlans call_plans_;
  ServeEnv env_;
  StepSignal& signal_;
  std::shared_ptr<Tracer> tracer_;  // a session that the engine still holds looks for it
  std::unique_ptr<Service> service_;
  std::unique_ptr<Address> door_, admin_;  // destroyed first: their threads call the service
};

// A wake-up that there is no memory for is not the engine's to fail by: the io threads look for work by themselves, in
// the tick of their timeouts.
void StepSignal::fire() {
  std::lock_guard lock(mu_);
  try {
    for (Server* server : servers_) server->flush();
  } catch (const std::bad_alloc&) {
    return;
  }
}

void StepSignal::watch(Server* server) {
  std::lock_guard lock(mu_);
  servers_.push_back(server);
}

void StepSignal::forget() {
  std::lock_guard lock(mu_);
  servers_.clear();
}

namespace {

class ListeningImpl final : public Listening {
 public:
  Status start(const ServeOptions& options) {
    door_ = std::make_unique<Address>();
    QR_TRY_VOID(door_->start(clients_server(options, metrics_)));
    if (options.admin_port < 0) return {};
    admin_ = std::make_unique<Address>();
    QR_TRY_VOID(admin_->start(operators_server(options, metrics_)));
    return {};
  }
  explicit ListeningImpl(Metrics& metrics) : metrics_(metrics) {}
  std::string url() const override { return door_->first().url(); }

  Result<std::unique_ptr<Serving>> serve(const ServeOptions& options,
                                         Engine& engine,
                                         const Tokenizer& tokenizer,
                                         StepSignal& signal) override {
    QR_CHECK(!options.models.empty() && door_ != nullptr);
    QR_TRY(ModelChat chat, make_chat(options.chat_template, tokenizer.spec().chat_template));
    auto serving = std::make_unique<ServingImpl>(options, tokenizer, std::move(chat), signal);
    QR_TRY_VOID(serving->start(options, engine, metrics_, std::move(door_), std::move(admin_)));
    return serving;
  }

 private:
  Metrics& metrics_;
  std::unique_ptr<Address> door_, admin_;
};

}  // namespace

Result<std::unique_ptr<Listening>> Listening::start(const ServeOptions& options, Metrics& metrics) {
  QR_TRY_VOID(check_tool_format(options.tool_format));
  auto out = std::make_unique<ListeningImpl>(metrics);
  QR_TRY_VOID(out->start(options));
  return out;
}

Result<std::unique_ptr<Serving>> start_serving(
    const ServeOptions& options, Engine& engine, const Tokenizer& tokenizer, Metrics& metrics, StepSignal& signal) {
  QR_TRY(const std::unique_ptr<Listening> listening, Listening::start(options, metrics));
  return listening->serve(options, engine, tokenizer, signal);
}

}  // namespace quire
