// Memory that is not there is one request's error. A whole request, from its head to its last byte, with the n-th
// allocation failing, for every n, and with all that follow failing too: on the thread that would be the io thread, on
// the prep threads and in the sinks. The sockets and the engine around them are spared: theirs are other rooms' tests.
#include <chrono>

#include "base/count_news.h"
#include "engine/test_guarded_sink.h"
#include "serve/essence_testing.h"
#include "serve/grammar_cache.h"
#include "serve/messages.h"
#include "serve/response_store.h"
#include "serve/service.h"
#include "serve/testing.h"
#include "text/chat_template.h"

namespace quire {
namespace {

struct Unspared {
  Unspared() : before(news_spared) { news_spared = 0; }
  ~Unspared() { news_spared = before; }
  Unspared(const Unspared&) = delete;
  Unspared& operator=(const Unspared&) = delete;
  int before;
};

// What a connection would be; pumped by the test, whose thread is the io thread.
class FakeReply final : public Reply {
 public:
  void add_header(std::string_view name, std::string_view value) override {
    const SpareNews spare;
    headers.push_back({std::string(name), std::string(value)});
  }
  bool send(int code, HttpHeaders more, std::string text) override {
    const SpareNews spare;
    const std::lock_guard lock(mu_);
    if (phase_ != Phase::open) return false;
    phase_ = Phase::complete;
    status = code;
    headers.insert(headers.end(), more.begin(), more.end());
    body = std::move(text);
    return true;
  }
  bool start_stream(int code, HttpHeaders more) override {
    const SpareNews spare;
    const std::lock_guard lock(mu_);
    if (phase_ != Phase::open) return false;
    phase_ = Phase::streaming;
    status = code;
    headers.insert(headers.end(), more.begin(), more.end());
    return true;
  }
  bool write(std::string_view bytes) override {
    const SpareNews spare;
    const std::lock_guard lock(mu_);
    if (phase_ != Phase::streaming) return false;
    body += bytes;
    return true;
  }
  void end() override {
    const std::lock_guard lock(mu_);
    if (phase_ == Phase::streaming) phase_ = Phase::complete;
  }
  void abort() override {
    const std::lock_guard lock(mu_);
    phase_ = Phase::aborted;
  }
  void set_producer(Producer fn) override {
    const std::lock_guard lock(mu_);
    producer_ = std::move(fn);
    notified_ = true;
  }
  void notify() override { notified_ = true; }
  void on_close(Closed fn) override {
    const std::lock_guard lock(mu_);
    closed_fn_ = std::move(fn);
  }
  void post(std::function<void()> fn) override { fn(); }
  void flush() override {}
  bool closed() const override { return closed_; }
  int64_t unsent_bytes() const override { return 0; }

  // One turn of the io thread. True once the reply is over.
  bool pump() {
    Producer producer;
    {
      const SpareNews spare;
      const std::lock_guard lock(mu_);
      if (notified_.exchange(false)) producer = producer_;
    }
    try {
      if (producer) producer(*this);
    } catch (const std::bad_alloc&) {  // what http does
      abort();
    }
    Closed fn;
    CloseReason reason{};
    {
      const std::lock_guard lock(mu_);
      if (phase_ == Phase::open || phase_ == Phase::streaming) return false;
      reason = phase_ == Phase::aborted ? CloseReason::aborted : CloseReason::finished;
      fn = std::exchange(closed_fn_, nullptr);
      producer_ = nullptr;
      closed_ = true;
    }
    if (fn) fn(reason);
    return true;
  }
  bool aborted() const { return phase_ == Phase::aborted; }
  bool has_header(std::string_view name) const {
    return std::any_of(headers.begin(), headers.end(), [&](const HttpHeader& h) { return h.name == name; });
  }

  int status = 0;
  HttpHeaders headers;
  std::string body;

 private:
  enum class Phase : uint8_t { open, streaming, complete, aborted };
  std::mutex mu_;
  Phase phase_ = Phase::open;
  Producer producer_;
  Closed closed_fn_;
  std::atomic<bool> notified_{false}, closed_{false};
};

// The scripted engine, stepped by the test; only what its sinks do, and one allocation of each submit, may fail.
class SparedEngine final : public Engine {
 public:
  explicit SparedEngine(StepSignal& signal) : fake(signal) {}
  Result<SeqId> submit(Request request, std::shared_ptr<EventSink> sink) override {
    const auto sequence = std::make_unique<int>(1);
    const SpareNews spare;
    return fake.submit(std::move(request), std::make_shared<GuardedSink<Unspared>>(std::move(sink)));
  }
  Result<std::shared_ptr<QueuePlaces>> reserve(uint64_t tenant, int n) override {
    const SpareNews spare;
    return fake.reserve(tenant, n);
  }
  void cancel(SeqId id) override {
    const SpareNews spare;
    fake.cancel(id);
  }
  void start() override {}
  void stop() override { fake.stop(); }
  bool step() override {
    const SpareNews spare;
    return fake.step();
  }
  std::vector<PinView> pins(uint64_t owner) const override { return fake.pins(owner); }
  bool unpin(uint64_t id, uint64_t owner) override { return fake.unpin(id, owner); }
  EngineStats stats() const override { return fake.stats(); }
  RequestViews requests() const override { return fake.requests(); }
  Snapshot snapshot() const override { return {}; }
  const EngineOptions& options() const override { return fake.options(); }

  FakeEngine fake;
};

class MemoryServer {
 public:
  MemoryServer()
      : engine(signal), tokenizer(tiny_tokenizer()), chat(std::move(*ChatTemplate::parse(plain_template()))) {
    ServiceOptions options;
    ServeEnv& env = options.env;
    responses = std::make_unique<ResponseStore>(env.limits, clock);
    env.tokenizer = tokenizer.get();
    env.chat = &chat;
    env.plain_chat = true;
    env.seeds = &seeds;
    env.responses = responses.get();
    env.engine = &engine.options();
    env.models = {"tiny"};
    env.n_ctx = 4096;
    env.card.n_embd = 4;
    options.n_prep_threads = 1;
    service = std::make_unique<Service>(engine, clock, metrics, std::move(options));
    service->set_ready();
  }

  // With the n-th allocation failing, 0: none.
  std::shared_ptr<FakeReply> ask(const Tried& what, int64_t n, bool stay_failed) {
    auto reply = std::make_shared<FakeReply>();
    HttpRequest request;
    request.method = what.method;
    request.target = request.path = what.path;
    request.headers = {{"host", "localhost"}, {"content-type", "application/json"}};
    request.peer = "127.0.0.1";
    request.body = what.body;
    news_stay_failed = stay_failed;
    news_until_failure = n;
    try {
      const Verdict verdict = service->door().judge(request);
      verdict.answer(std::move(request), reply);
    } catch (const std::bad_alloc&) {  // what http makes of it
      const SpareNews spare;
      reply->send(503, {{"Retry-After", "1"}}, "out of memory");
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    bool over = false;
    while (!over && std::chrono::steady_clock::now() < until) {
      engine.step();
      over = reply->pump();
    }
    n_left = news_until_failure;
    news_until_failure = 0;
    EXPECT_TRUE(over) << "the request hangs";
    for (int i = 0; i < 100 && (engine.fake.n_running() > 0 || service->n_sessions() > 0); ++i) engine.step();
    return reply;
  }

  StepSignal signal;
  SparedEngine engine;
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplate chat;
  SystemClock clock;
  Metrics metrics;
  SeedSource seeds;
  std::unique_ptr<ResponseStore> responses;
  std::unique_ptr<Service> service;
  int64_t n_left = 0;  // of the last ask: above 0, the failure did not come
};

std::vector<Tried> requests() {
  std::vector<Tried> out = tried_at_every_door(300), more = tried_beside_them();
  std::move(more.begin(), more.end(), std::back_inserter(out));
  for (const char* path : {"/health", "/ready", "/v1/models", "/props", "/metrics", "/api/tags"})
    out.push_back({"GET", path, ""});
  return out;
}

class OutOfMemory : public testing::TestWithParam<bool> {};

TEST_P(OutOfMemory, IsTheErrorOfItsRequestAndOfNobodyElse) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  const bool stay_failed = GetParam();
  MemoryServer s;
  for (const Tried& what : requests()) {
    SCOPED_TRACE(what.path + " " + what.body);
    s.ask(what, 0, false);  // what is made once
    const auto wanted = s.ask(what, 0, false);
    const std::string right = essence(what, wanted->body);
    int n_refused = 0;
    for (int64_t n = 1;; n += 1 + n / 128) {  // the first each by itself
      const auto got = s.ask(what, n, stay_failed);
      if (s.n_left > 0 && !(stay_failed && s.n_left == 1)) break;
      const bool whole = !got->aborted() && got->status == wanted->status;
      const bool refused = got->status == 503 && got->has_header("Retry-After");
      n_refused += refused || got->aborted() ? 1 : 0;
      const bool told = got->body.find("out of memory") != std::string::npos;
      EXPECT_TRUE(got->aborted() || (refused && told) ||
                  (whole && (told || right.empty() || essence(what, got->body) == right)))
          << "allocation " << n << ": status " << got->status << " " << got->body;
      EXPECT_EQ(s.service->n_sessions(), 0) << "allocation " << n;
      EXPECT_EQ(s.engine.fake.n_running(), 0) << "allocation " << n;
      if (HasFailure()) return;
    }
    EXPECT_GT(n_refused, 0);
    const auto next = s.ask(what, 0, false);
    EXPECT_EQ(next->status, wanted->status);
    EXPECT_EQ(essence(what, next->body), right);
    const auto metrics = s.ask({"GET", "/metrics", ""}, 0, false);
    EXPECT_NE(metrics->body.find("\nquire_answers_held_bytes 0\n"), std::string::npos);
    if (HasFailure()) return;
  }
}

// The queue has room for none of them; then nothing that each would need is made.
TEST(ManyChoices, ThatWillBeRefusedAreNotMade) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  MemoryServer s;
  s.engine.fake.options_.max_queue = 1;
  const auto news_of = [&](int n) {
    const std::string prompts = R"("prompt":["a","b","c","d","e","f","g","h"])";
    const Tried what{"POST", "/v1/completions", "{" + prompts + ",\"max_tokens\":4,\"n\":" + std::to_string(n) + "}"};
    s.ask(what, 0, false);  // what is made once
    const int64_t before = n_news;
    EXPECT_EQ(s.ask(what, 0, false)->status, 429);
    return n_news - before;
  };
  const int64_t of_few = news_of(1), of_many = news_of(128);
  EXPECT_LT(of_many, of_few + 100) << "1024 choices; 8 took " << of_few;
}

// Whether somebody came to wait for a compilation that ran out of memory at its n-th allocation, and was told so.
bool waits_in_vain(const Tokenizer& tokenizer, const GrammarSource& source, int64_t n) {
  const SpareNews spare;
  GrammarCache cache(tokenizer, 64 << 20);
  bool failed = false, told = false;
  std::atomic<bool> over = false;
  std::thread compiles([&] {
    news_until_failure = n;
    try {
      cache.get(source);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    news_until_failure = 0;
    over = true;
  });
  while (!over && cache.stats().n_entries == 0) std::this_thread::yield();
  try {
    cache.get(source);
  } catch (const std::bad_alloc&) {
    told = true;
  }
  compiles.join();
  EXPECT_TRUE(failed);
  EXPECT_TRUE(cache.get(source)) << "who comes later tries again";
  return told;
}

TEST(GrammarCache, WhoWaitsForACompilationWithoutMemoryIsToldSoToo) {
  if (!QR_COUNTS_NEWS) GTEST_SKIP() << "a sanitizer counts here";
  const auto tokenizer = tiny_tokenizer();
  const GrammarSource source{GrammarSource::Notation::regex, "(a|b){1,400}c[0-9]{5,300}"};
  GrammarCache whole(*tokenizer, 64 << 20);
  const int64_t before = n_news;
  ASSERT_TRUE(whole.get(source));
  const int64_t n = n_news - before;
  bool told = false;
  for (int i = 0; i < 1000 && !told; ++i) told = waits_in_vain(*tokenizer, source, n - 8);
  EXPECT_TRUE(told);
}

INSTANTIATE_TEST_SUITE_P(All, OutOfMemory, testing::Bool());

}  // namespace
}  // namespace quire
