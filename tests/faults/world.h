// A whole server in this process: a small model that computes, an engine with its thread, prep threads, two io threads,
// two keys. A neighbour streams from the second io thread, which is spared; whoever comes beside it is on the first,
// which accepts too.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "backend/cpu/cpu_ops.h"
#include "engine/test_guarded_sink.h"
#include "serve/testing.h"
#include "tests/faults/victim.h"
#include "tests/support/tiny_model.h"

namespace quire {

inline constexpr const char* kFaultThreads = "quire-io-0 quire-prep- qr-engine";
inline constexpr int kWorldContext = 2048;

// The engine, but for what it does for the neighbour's own sequence, which does not fail.
class BesideEngine final : public Engine {
 public:
  BesideEngine(Engine& engine, uint64_t spared) : engine_(engine), spared_(spared) {}
  Result<SeqId> submit(Request request, std::shared_ptr<EventSink> sink) override {
    if (request.tenant == spared_) sink = std::make_shared<GuardedSink<SpareFaults>>(std::move(sink));
    return engine_.submit(std::move(request), std::move(sink));
  }
  Result<std::shared_ptr<QueuePlaces>> reserve(uint64_t tenant, int n) override { return engine_.reserve(tenant, n); }
  void cancel(SeqId id) override { engine_.cancel(id); }
  std::vector<PinView> pins(uint64_t owner) const override { return engine_.pins(owner); }
  bool unpin(uint64_t id, uint64_t owner) override { return engine_.unpin(id, owner); }
  void start() override { engine_.start(); }
  void stop() override { engine_.stop(); }
  bool step() override { return engine_.step(); }
  EngineStats stats() const override { return engine_.stats(); }
  RequestViews requests() const override { return engine_.requests(); }
  Snapshot snapshot() const override { return engine_.snapshot(); }
  const EngineOptions& options() const override { return engine_.options(); }

 private:
  Engine& engine_;
  const uint64_t spared_;
};

// Streams one answer after the other on one connection, and knows what each must be.
class Neighbour {
 public:
  explicit Neighbour(int port) : client_({.port = port}) {}
  ~Neighbour() { finish(); }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // One answer, whole; the first is what all others must be.
  void learn() {
    begin();
    finish();
    right_ = got_;
  }
  // Has it stream; waits for the first token.
  void stream_on() {
    if (thread_.joinable() && !over_) return;
    finish();
    begin();
    eventually([&] { return over_ || !text().empty(); });
  }
  // What is wrong with what it got so far; empty: nothing.
  std::string wrong() const {
    const std::lock_guard lock(mu_);
    if (!error_.empty()) return error_;
    if (right_.compare(0, got_.size(), got_) != 0) return "it got other tokens";
    return over_ && got_ != right_ ? "its answer ended early" : "";
  }
  void finish() {
    if (thread_.joinable()) thread_.join();
  }
  size_t n_bytes() const { return text().size(); }

 private:
  std::string text() const {
    const std::lock_guard lock(mu_);
    return got_;
  }
  void begin() {
    {
      const std::lock_guard lock(mu_);
      got_.clear();
      error_.clear();
      over_ = false;
    }
    thread_ = std::thread([this] { run(); });
  }
  void run() {
    const std::string body = R"({"prompt":"the cat sat","temperature":0,"ignore_eos":true,"stream":true})";
    const HttpHeaders headers{{"Authorization", "Bearer neighbour"}, {"Content-Type", "application/json"}};
    bool done = false;
    const auto response = client_.events({"POST", "/v1/completions", headers, body}, [&](SseEvent&& event, int64_t) {
      done = event.data == "[DONE]";
      const std::lock_guard lock(mu_);
      if (event.event == "error") error_ = "it got an error: " + event.data;
      if (done) return true;
      const auto json = Json::parse(event.data);
      const Json piece = json ? json_at(*json, "choices", 0, "text") : Json();
      if (piece.as_string() != nullptr) got_ += *piece.as_string();
      return true;
    });
    const std::lock_guard lock(mu_);
    if (!response)
      error_ = "it was cut: " + response.error().message;
    else if (response->status != 200)
      error_ = "it was refused: " + response->body;
    else if (!done && error_.empty())
      error_ = "its stream has no end";
    over_ = true;
  }

  HttpClient client_;
  std::thread thread_;
  mutable std::mutex mu_;  // guards what follows
  std::string got_, right_, error_;
  std::atomic<bool> over_{true};
};

class FaultWorld {
 public:
  FaultWorld()
      : ops_(std::move(*make_cpu_ops({.n_threads = 1, .isa = "", .pin = false}))),
        tiny_(shape(), "f32", 3),
        model_(std::move(*tiny_.load(*ops_, "f16", kWorldContext))),
        tokenizer_(tiny_tokenizer()) {
    fault_threads = kFaultThreads;
    make();
    asker_ = std::make_unique<HttpClient>(ClientOptions{.port = serving_->port()});
    left();  // its connection is the first thread's, and stays
    neighbour_ = std::make_unique<Neighbour>(serving_->port());
    neighbour_->learn();
  }
  ~FaultWorld() {
    neighbour_ = nullptr;
    asker_ = nullptr;
    serving_ = nullptr;
    engine_->stop();
  }

  int port() const { return serving_->port(); }
  Neighbour& neighbour() const { return *neighbour_; }
  const Engine& engine() const { return *engine_; }
  Serving& serving() const { return *serving_; }
  double gauge(const char* name) { return metrics_.gauge(name, "").value(); }

  // What is held for others than the neighbour, once all that was asked is over: empty for nothing.
  std::string left() {
    const EngineStats stats = engine_->stats();
    if (stats.n_running > 1) return std::to_string(stats.n_running - 1) + " sequences run";
    if (stats.n_waiting > 0) return std::to_string(stats.n_waiting) + " sequences wait";
    if (gauge("quire_http_connections") > 2) return "a connection is open";
    const auto metrics = asker_->request({"GET", "/metrics", {{"Authorization", "Bearer victim"}}, ""});
    if (!metrics || metrics->status != 200) return "no metrics";
    if (gauge("quire_requests_open") > 2) return "a request is still open";
    return "";
  }

 private:
  static TinyShape shape() {
    return {.n_layers = 1, .n_vocab = static_cast<int>(tiny_spec().tokens.size()), .n_ctx = kWorldContext};
  }
  void make() {
    EngineOptions wanted;
    wanted.n_ctx = kWorldContext;
    wanted.max_seqs = 8;
    wanted.max_queue = 16;
    wanted.kv_bytes = int64_t{400} * 16 * model_->info().kv_layout.token_bytes();
    EngineEnv env;
    env.clock = &clock_;
    env.on_step_end = [this] {
      signal_.fire();
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // the neighbour's answer shall take a while
    };
    engine_ = std::move(*make_engine(*model_, *ops_, wanted, env));
    beside_ = std::make_unique<BesideEngine>(*engine_, 1);
    ServeOptions options;
    options.port = 0;
    options.n_io_threads = 2;
    options.models = {"tiny"};
    options.random = counted_random(1);
    options.guard.hosts = {"x"};
    options.keys = {plain_key("neighbour", "neighbour", true, false), plain_key("victim", "victim", true, true)};
    options.keys[1].limits.concurrent = 4;  // a place that is not given back is soon missed
    options.limits.prep_bytes = 64 << 10;   // likewise
    options.limits.n_resumable_each = 2;
    options.http.linger_ms = 50;
    options.card.n_embd = shape().n_embd;
    engine_->start();
    auto started = start_serving(options, *beside_, *tokenizer_, metrics_, signal_);
    QR_CHECK(started.has_value(), started ? "" : started.error().message);
    serving_ = std::move(*started);
  }

  StepSignal signal_;
  Metrics metrics_;
  SystemClock clock_;
  std::unique_ptr<Ops> ops_;
  TinyModel tiny_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<BesideEngine> beside_;
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<HttpClient> asker_;
  std::unique_ptr<Neighbour> neighbour_;
};

}  // namespace quire
