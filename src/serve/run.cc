#include "serve/run.h"

#include <algorithm>
#include <ctime>
#include <new>

#include "base/log.h"
#include "http/server.h"
#include "serve/messages.h"
#include "serve/public_prompts.h"
#include "serve/response_store.h"
#include "serve/seeds.h"
#include "serve/service.h"

namespace quire {
namespace {

constexpr int kLastBytesMs = 2'000;  // for what is already written, once no request runs any more

// What one sequence can hold: the model's context, or all blocks where these are fewer.
int64_t context_tokens(const Engine& engine) {
  const EngineOptions& options = engine.options();
  const int64_t in_blocks = int64_t{engine.stats().n_blocks} * options.block_tokens;
  return in_blocks > 0 ? std::min<int64_t>(options.n_ctx, in_blocks) : options.n_ctx;
}

struct Chat {
  ChatTemplate chat;
  bool plain;
};
Result<Chat> make_chat(const std::string& source) {
  if (!source.empty()) {
    auto own = ChatTemplate::parse(source);
    if (own) return Chat{std::move(*own), false};
    log_warn("the model's chat template cannot be used, a plain one is: " + own.error().message);
  }
  QR_TRY(ChatTemplate plain, ChatTemplate::parse(plain_template()));
  return Chat{std::move(plain), true};
}

}  // namespace

class ServingImpl final : public Serving {
 public:
  ServingImpl(const ServeOptions& options, const Tokenizer& tokenizer, Chat chat, StepSignal& signal)
      : seeds_(options.random), chat_(std::move(chat)), responses_(options.limits, clock_), signal_(signal) {
    env_.tokenizer = &tokenizer;
    env_.chat = &chat_.chat;
    env_.plain_chat = chat_.plain;
    env_.seeds = &seeds_;
    env_.responses = &responses_;
    env_.reasoning = find_reasoning_form(tokenizer);
    env_.fill = find_fill_tokens(tokenizer);
    env_.limits = options.limits;
    env_.models = options.models;
    env_.strict_model = options.strict_model;
    env_.card = options.card;
    env_.request_log = options.request_log;
    env_.started_s = std::time(nullptr);
    public_prompts_ = PublicPrompts(options.public_prompts, env_);
    env_.public_prompts = &public_prompts_;
  }
  ~ServingImpl() override { stop(0); }

  Status start(const ServeOptions& options, Engine& engine, Metrics& metrics) {
    env_.n_ctx = context_tokens(engine);
    env_.engine = &engine.options();
    if (!options.traces.host.empty()) tracer_ = std::make_shared<Tracer>(options.traces, metrics);
    ServiceOptions service;
    service.tracer = tracer_;
    service.env = env_;
    service.keys = options.keys;
    service.machine = options.machine;
    service.guard = options.guard;
    service.own_admin_address = options.admin_port >= 0;
    service.n_prep_threads = options.n_prep_threads;
    const std::string admin_host = options.admin_host.empty() ? "127.0.0.1" : options.admin_host;
    service.guard.loopback = is_loopback(options.host);
    service.admin_guard.hosts = options.guard.hosts;
    service.admin_guard.loopback = is_loopback(admin_host);
    service_ = std::make_unique<Service>(engine, clock_, metrics, std::move(service));
    ServerOptions server;
    server.host = options.host;
    server.port = options.port;
    server.n_io_threads = options.n_io_threads;
    server.limits = options.http;
    server.metrics = &metrics;
    server.tls_certificate = options.tls_certificate;
    server.tls_key = options.tls_key;
    QR_TRY(server_, Server::start(server, service_->door()));
    if (options.admin_port >= 0) {
      server.host = admin_host;
      server.port = options.admin_port;
      server.n_io_threads = 1;
      server.tls_certificate = server.tls_key = "";
      QR_TRY(admin_, Server::start(server, service_->admin_door()));
    }
    signal_.watch(server_.get());
    service_->set_ready();
    return {};
  }

  int port() const override { return server_->port(); }
  std::string url() const override { return server_->url(); }
  std::string admin_url() const override { return admin_ != nullptr ? admin_->url() : ""; }

  void stop(int64_t drain_ms) override {
    if (service_ == nullptr || server_ == nullptr) return;
    service_->drain(drain_ms);
    server_->stop(kLastBytesMs);
    if (admin_ != nullptr) admin_->stop(0);
    signal_.watch(nullptr);
  }

 private:
  SystemClock clock_;
  SeedSource seeds_;
  Chat chat_;
  PublicPrompts public_prompts_;
  ResponseStore responses_;
  ServeEnv env_;
  StepSignal& signal_;
  std::shared_ptr<Tracer> tracer_;  // a session that the engine still holds looks for it
  std::unique_ptr<Service> service_;
  std::unique_ptr<Server> server_, admin_;  // destroyed first: their threads call the service
};

// A wake-up that there is no memory for is not the engine's to fail by: the io threads look for work by themselves, in
// the tick of their timeouts.
void StepSignal::fire() {
  std::lock_guard lock(mu_);
  try {
    if (server_ != nullptr) server_->flush();
  } catch (const std::bad_alloc&) {
    return;
  }
}

void StepSignal::watch(Server* server) {
  std::lock_guard lock(mu_);
  server_ = server;
}

Result<std::unique_ptr<Serving>> start_serving(
    const ServeOptions& options, Engine& engine, const Tokenizer& tokenizer, Metrics& metrics, StepSignal& signal) {
  QR_CHECK(!options.models.empty());
  QR_TRY(Chat chat, make_chat(tokenizer.spec().chat_template));
  auto serving = std::make_unique<ServingImpl>(options, tokenizer, std::move(chat), signal);
  QR_TRY_VOID(serving->start(options, engine, metrics));
  return serving;
}

}  // namespace quire
