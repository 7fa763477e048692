// Workers' events over real sockets, and what a whole router makes of them.
#include "route/kv_feeds.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <atomic>
#include <cstring>

#include "base/may_leak_testing.h"
#include "events/kv_publisher.h"
#include "route/testing.h"
#include "route/token_questions.h"

#ifdef __SANITIZE_THREAD__
// libzmq is not built for the thread sanitizer, which does not see how it guards what its threads share.
extern "C" const char* __tsan_default_suppressions() { return "race:libzmq.so\n"; }
#endif

namespace quire {
namespace {

constexpr int kBlock = 16;

// Blocks of a prompt of tokens `first`, `first` + 1 …
KvNews prompt_blocks(Token first, int n_blocks, uint64_t salt = 0) {
  KvNews out;
  for (int b = 0; b < n_blocks; ++b) {
    const auto name = [&](int i) { return Hash128{static_cast<uint64_t>(1000 * first + i) + 1, salt + 1}; };
    out.blocks.push_back({name(b), b > 0 ? name(b - 1) : Hash128{}, 0, salt, true});
    for (int i = 0; i < kBlock; ++i) out.tokens.push_back(first + b * kBlock + i);
  }
  return out;
}

std::vector<Token> prompt(Token first, int n_tokens) {
  std::vector<Token> out(static_cast<size_t>(n_tokens));
  for (int i = 0; i < n_tokens; ++i) out[static_cast<size_t>(i)] = first + i;
  return out;
}

std::string json_of(const std::vector<Token>& tokens) {
  std::string out = "[";
  for (const Token token : tokens) out += (out.size() > 1 ? "," : "") + std::to_string(token);
  return out + "]";
}

// An engine's events, as its mirror and its publisher say them.
struct Engine {
  explicit Engine(std::string address = "tcp://127.0.0.1:*", std::string replay = "tcp://127.0.0.1:*") {
    KvPublisherOptions options;
    options.address = std::move(address);
    options.replay_address = std::move(replay);
    options.topic = "kv@pod@model";
    options.block_tokens = kBlock;
    options.all = [this] {
      const std::lock_guard lock(mutex);
      return KvAll{all, number};
    };
    all.all_cleared = true;
    auto made = KvPublisher::start(std::move(options), metrics);
    EXPECT_TRUE(made) << made.error().message;
    publisher = std::move(*made);
  }
  void store(Token first, int n_blocks, uint64_t salt = 0) {
    KvNews news = prompt_blocks(first, n_blocks, salt);
    const std::lock_guard lock(mutex);
    all.blocks.insert(all.blocks.end(), news.blocks.begin(), news.blocks.end());
    all.tokens.insert(all.tokens.end(), news.tokens.begin(), news.tokens.end());
    number = publisher->next_number();
    publisher->publish(std::move(news));
  }
  // A batch that nobody hears.
  void lose() {
    const std::lock_guard lock(mutex);
    number = publisher->next_number();
    publisher->lose();
  }
  EventPlace place(const std::string& worker = "") const {
    return {worker, publisher->address().substr(6), publisher->replay_address().substr(6)};
  }
  Metrics metrics;
  std::mutex mutex;
  KvNews all;           // guarded by mutex
  uint64_t number = 0;  // likewise
  std::unique_ptr<KvPublisher> publisher;
};

struct Listener {
  explicit Listener(const EventPlace& place, KvFeedOptions options = {}) {
    fleet->set_workers({{{"127.0.0.1", 1}, ""}});
    id = fleet->workers()[0]->id;
    auto made = KvFeeds::start({place}, fleet, index, metrics, std::move(options));
    EXPECT_TRUE(made) << made.error().message;
    feeds = std::move(*made);
  }
  int64_t held(const std::vector<Token>& tokens) {
    const KvIndex::Sought one{id, 0};
    const auto hits = index.find(tokens, std::span(&one, 1), 0);
    return hits.empty() ? -1 : hits[0].n_tokens;
  }
  bool comes_to(int64_t n, const std::vector<Token>& tokens) {
    return eventually([&] { return held(tokens) == n; });
  }
  uint64_t count(const char* name) { return metrics.counter(name, "").value(); }
  Metrics metrics;
  SystemClock clock;
  RouteLimits limits;
  std::shared_ptr<Fleet> fleet = std::make_shared<Fleet>("prefix", limits, clock, metrics);
  KvIndex index{100'000, 77};
  uint64_t id = 0;
  std::unique_ptr<KvFeeds> feeds;
};

TEST(EventPlace, IsAPortAnAddressOrAPath) {
  const auto place = parse_event_place("http://10.0.0.1:8080=5557,10.0.0.9:5558");
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(place->worker, "10.0.0.1:8080");
  EXPECT_EQ(zmq_address(place->events, "10.0.0.1"), "tcp://10.0.0.1:5557");
  EXPECT_EQ(zmq_address(place->events, "::1"), "tcp://[::1]:5557");
  EXPECT_EQ(zmq_address(place->replay, "10.0.0.1"), "tcp://10.0.0.9:5558");
  ASSERT_TRUE(parse_event_place("[::1]:5557"));
  const auto path = parse_event_place("ipc:///run/a=b");
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(zmq_address(path->events, "x"), "ipc:///run/a=b");
  EXPECT_TRUE(path->worker.empty());
  for (const char* bad :
       {"", "0", "70000", "x", "5557,", "5557,x", ",5558", "tcp://*:1", "::1:5557", ":1", "ipc://", "=5557"}) {
    const auto wrong = parse_event_place(bad);
    ASSERT_FALSE(wrong) << bad;
  }
  EXPECT_NE(parse_event_place("x").error().message.find("must be [WORKER=]EVENTS[,REPLAY]"), std::string::npos);
}

TEST(KvFeeds, WhatWasThereBeforeWhatComesAndWhatWasLostIsKnown) {
  Engine engine;
  engine.store(100, 2);
  Listener listener(engine.place());
  EXPECT_TRUE(listener.comes_to(32, prompt(100, 100)));
  engine.store(500, 3);
  EXPECT_TRUE(listener.comes_to(48, prompt(500, 100)));
  engine.lose();
  engine.store(900, 4);
  EXPECT_TRUE(listener.comes_to(64, prompt(900, 100)));
  EXPECT_EQ(listener.held(prompt(500, 100)), 48);
  EXPECT_EQ(listener.count("quire_route_kv_gaps_total"), 1U);
  EXPECT_EQ(listener.count("quire_route_kv_dumps_total"), 2U);
}

TEST(KvFeeds, AWorkerThatBeginsAnewHoldsNothingOfBefore) {
  auto engine = std::make_unique<Engine>();
  engine->store(100, 2);
  const std::string address = engine->publisher->address(), replay = engine->publisher->replay_address();
  Listener listener(engine->place());
  EXPECT_TRUE(listener.comes_to(32, prompt(100, 100)));
  engine = nullptr;
  listener.fleet->unreached(*listener.fleet->workers()[0]);
  EXPECT_TRUE(listener.comes_to(-1, prompt(100, 100)));
  engine = std::make_unique<Engine>(address, replay);
  engine->store(500, 1);
  EXPECT_TRUE(listener.comes_to(16, prompt(500, 100)));
  EXPECT_EQ(listener.held(prompt(100, 100)), 0);
  listener.fleet->set_workers({});
  EXPECT_TRUE(listener.comes_to(-1, prompt(500, 100)));
}

// What a name stands for, said by the test.
HostAddress loopback(bool v6) {
  HostAddress out;
  if (v6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    std::memcpy(&out.bytes, &address, out.n_bytes = sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::memcpy(&out.bytes, &address, out.n_bytes = sizeof address);
  }
  return out;
}

// libzmq would ask for addresses of IPv4 alone.
TEST(KvFeeds, ANameThatHasAnAddressOfIpv6AloneIsListenedTo) {
  auto context = ZmqContext::open();
  ASSERT_TRUE(context);
  if (!std::move(*ZmqSocket::open(*context, ZmqKind::pub, {}))->bind("tcp://[::1]:*"))
    GTEST_SKIP() << "this machine has no IPv6";
  Engine engine("tcp://[::1]:*", "tcp://[::1]:*");
  engine.store(100, 2);
  const auto port = [](const std::string& address) { return address.substr(address.rfind(':')); };
  const EventPlace place{"", "events.example" + port(engine.publisher->address()),
                         "events.example" + port(engine.publisher->replay_address())};
  std::atomic<int> n_asked{0};
  KvFeedOptions options;
  options.find = [&](const std::string& host, int, const HostLookup::Done& done) {
    EXPECT_EQ(host, "events.example");
    ++n_asked;
    done({loopback(true)}, "");
  };
  Listener listener(place, options);
  EXPECT_TRUE(listener.comes_to(32, prompt(100, 100)));
  engine.store(500, 3);
  EXPECT_TRUE(listener.comes_to(48, prompt(500, 100)));
  const int before = n_asked;
  EXPECT_EQ(before, 2);  // for each of the two ports
  // It may be somewhere else when it is connected to anew.
  listener.fleet->unreached(*listener.fleet->workers()[0]);
  EXPECT_TRUE(eventually([&] { return n_asked == 2 * before; }));
  EXPECT_TRUE(listener.comes_to(48, prompt(500, 100)));
}

TEST(KvFeeds, ANameThatHasAnAddressOfIpv4IsLibzmqsToFind) {
  Engine engine;
  engine.store(100, 2);
  const auto port = [](const std::string& address) { return address.substr(address.rfind(':')); };
  const EventPlace place{"", "localhost" + port(engine.publisher->address()),
                         "localhost" + port(engine.publisher->replay_address())};
  KvFeedOptions options;
  options.find = [](const std::string&, int, const HostLookup::Done& done) {
    done({loopback(true), loopback(false)}, "");
  };
  Listener listener(place, options);
  EXPECT_TRUE(listener.comes_to(32, prompt(100, 100)));
}

// One message too much, or one that takes too long, of a worker beside another.
class FloodOf : public testing::TestWithParam<FloodLimits> {};

TEST_P(FloodOf, NonsenseAndTooMuchHarmNobodyElse) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "under the thread sanitizer five large messages a second are too many to be sent";
#endif
  auto context = ZmqContext::open();
  ASSERT_TRUE(context);
  auto bad = std::move(*ZmqSocket::open(*context, ZmqKind::pub, {1000, 1000, -1}));
  ASSERT_TRUE(bad->bind("tcp://127.0.0.1:*"));
  Engine good;
  good.store(100, 2);
  Listener listener({"127.0.0.1:2", bad->address().substr(6), ""});
  listener.feeds = nullptr;
  listener.fleet->set_workers({{{"127.0.0.1", 1}, ""}, {{"127.0.0.1", 2}, ""}});
  EventPlace other{"127.0.0.1:2", bad->address().substr(6), ""};
  listener.feeds = std::move(
      *KvFeeds::start({good.place(), other}, listener.fleet, listener.index, listener.metrics, {GetParam(), nullptr}));
  EXPECT_TRUE(listener.comes_to(32, prompt(100, 100)));
  const auto frame = [](std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); };
  const ZmqFrame large = frame(std::string(900'000, '\xdd')), small = frame("x");
  const std::vector<ZmqFrame> parts(5'000, small);
  EXPECT_TRUE(eventually([&] {
    bad->send(std::array{small});
    return listener.count("quire_route_kv_bad_total") > 0;
  }));
  EXPECT_TRUE(eventually([&] {
    const MayLeak may_leak;  // libzmq loses the frames of a message whose connection ends while they are sent
    for (int i = 0; i < 20; ++i) bad->send(std::array{small, frame(std::string(8, '\1')), large});
    bad->send(parts);
    return listener.count("quire_route_kv_floods_total") > 0;
  }));
  good.store(500, 3);
  EXPECT_TRUE(listener.comes_to(48, prompt(500, 100)));
  EXPECT_EQ(listener.held(prompt(100, 100)), 32);
}
INSTANTIATE_TEST_SUITE_P(,
                         FloodOf,
                         testing::Values(FloodLimits{.bytes = 1 << 20},
                                         FloodLimits{.messages = 5},
                                         FloodLimits{.bytes = INT64_MAX, .messages = INT64_MAX, .busy_ns = 5'000'000}));

TEST(TokenQuestions, AreReadFromListsAndFromAnswers) {
  EXPECT_EQ(tokens_in_prompt("[1, 2,\n3]"), (std::vector<Token>{1, 2, 3}));
  for (const char* other : {"", "\"text\"", "[]", "[1,", "[1 2]", "[-1]", "[1.5]", "[[1]]", "[\"a\"]", "[99999999999]"})
    EXPECT_TRUE(tokens_in_prompt(other).empty()) << other;
  EXPECT_EQ(tokens_in_answer(R"({"request_id":"a","token_ids":[5,6]})"), (std::vector<Token>{5, 6}));
  EXPECT_EQ(tokens_in_answer(R"([{"text":"\"token_ids\":[1]","token_ids" : [7]},{"token_ids":[8]}])"),
            (std::vector<Token>{7}));
  EXPECT_TRUE(tokens_in_answer(R"({"token_ids":null})").empty());
  EXPECT_TRUE(tokens_in_answer("{}").empty());
  EXPECT_EQ(render_path("/chat/completions"), "/v1/chat/completions/render");
  EXPECT_TRUE(render_path("/v1/embeddings").empty());
}

// Two workers that say the tokens of a chat; each has an engine's events.
class ByEvents : public testing::Test {
 protected:
  static constexpr int kTokens = 70;
  static constexpr const char* kModels =
      R"({"data":[{"id":"base","owned_by":"quire"},{"id":"adapter","owned_by":"quire","parent":"base"}]})";
  ByEvents() : first_(kModels, answer()), second_(kModels, answer()) {}

  Verdict::Answer answer() {
    return [this](HttpRequest&& request, const ReplyPtr& reply) {
      if (!request.path.ends_with("/render")) {
        reply->send(200, {{"x-quire-cache-salt", salt_}}, "{}");
        return;
      }
      ++n_asked_;
      for (const HttpHeader& h : request.headers) asked_fields_ += h.name + "\n";
      if (silent_)
        silenced_.push_back(reply);
      else
        reply->send(render_status_, {}, R"({"token_ids":)" + json_of(prompt(100, kTokens)) + behind_ + "}");
    };
  }
  void start(std::string policy = "prefix", RouteLimits limits = {}) {
    if (limits.tokens_ms == RouteLimits().tokens_ms) limits.tokens_ms = 60'000;  // however slow the machine is
    RouteOptions options;
    options.port = 0;
    options.policy = std::move(policy);
    options.limits = limits;
    for (const FakeWorker* worker : {&first_, &second_})
      options.workers.push_back({{"127.0.0.1", worker->server->port()}, ""});
    options.events = {a_.place(options.workers[0].name()), b_.place(options.workers[1].name())};
    auto made = start_router(options, metrics_);
    ASSERT_TRUE(made) << made.error().message;
    router_ = std::move(*made);
    client_ = std::make_unique<HttpClient>(ClientOptions{.port = router_->port()});
    EXPECT_TRUE(eventually([&] {
      const std::string text = get("/metrics");
      return text.find("quire_worker_usable") != text.npos && sum(text, "quire_worker_usable{") == 2 &&
             sum(text, "quire_worker_kv_known{") == 2;
    }));
  }
  std::string get(const std::string& path) { return client_->request({"GET", path, {}, ""})->body; }
  static double sum(const std::string& text, const std::string& name) {
    double out = 0;
    for (size_t at = text.find("\n" + name); at != text.npos; at = text.find("\n" + name, at + 1))
      out += std::stod(text.substr(text.rfind(' ', text.find('\n', at + 1)) + 1));
    return out;
  }
  // Where a chat goes, and why.
  std::pair<int, std::string> ask(const std::string& key = "", const std::string& more = "", HttpHeaders headers = {}) {
    headers.push_back({"Content-Type", "application/json"});
    if (!key.empty()) headers.push_back({"Authorization", "Bearer " + key});
    const auto got = client_->request({"POST", "/v1/chat/completions", headers,
                                       R"({"messages":[{"role":"user","content":")" + text_ + "\"}]" + more + "}"});
    EXPECT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->status, 200) << got->body;
    EXPECT_EQ(got->header("x-quire-cache-salt"), nullptr);
    const std::string worker = *got->header("x-quire-worker");
    return {worker.ends_with(std::to_string(first_.server->port())) ? 1 : 2, *got->header("x-quire-route")};
  }
  void anew() { text_ = std::string(400, static_cast<char>('a' + n_texts_++)); }

  Metrics metrics_;
  Engine a_, b_;
  std::atomic<int> n_asked_{0};
  std::atomic<bool> silent_{false};
  std::string salt_ = "salt", asked_fields_;  // of questions for tokens
  std::string behind_;                        // the tokens of an answer
  int render_status_ = 200;
  FakeWorker first_, second_;
  std::vector<ReplyPtr> silenced_;
  std::unique_ptr<RouteServer> router_;
  std::unique_ptr<HttpClient> client_;
  int n_texts_ = 0;
  std::string text_ = std::string(400, 'z');
};

TEST_F(ByEvents, APromptGoesToWhoHasItThoughNobodyWasSentIt) {
  b_.store(100, 4);
  start();
  EXPECT_TRUE(eventually([&] { return sum(get("/metrics"), "quire_worker_kv_blocks{") == 4; }));
  for (int i = 0; i < 4; ++i) {
    anew();
    EXPECT_EQ(ask(), (std::pair<int, std::string>{2, "prefix"}));
  }
  EXPECT_EQ(n_asked_, 4);
  EXPECT_EQ(sum(get("/metrics"), "quire_route_known_by_total{source=\"events\"}"), 4);
}

TEST_F(ByEvents, TokensThatAreGivenAreNotAskedFor) {
  b_.store(100, 4);
  start();
  EXPECT_TRUE(eventually([&] { return sum(get("/metrics"), "quire_worker_kv_blocks{") == 4; }));
  const auto got = client_->request({"POST",
                                     "/v1/completions",
                                     {{"Content-Type", "application/json"}},
                                     R"({"prompt":)" + json_of(prompt(100, kTokens)) + "}"});
  EXPECT_TRUE(got->header("x-quire-worker")->ends_with(std::to_string(second_.server->port())));
  EXPECT_EQ(n_asked_, 0);
}

TEST_F(ByEvents, WhoSaysNoTokensIsNotAskedForLongAndPromptsAreKnownByTheirText) {
  b_.store(100, 4);
  render_status_ = 404;
  start();
  EXPECT_TRUE(eventually([&] { return sum(get("/metrics"), "quire_worker_kv_blocks{") == 4; }));
  const auto [home, reason] = ask();
  EXPECT_EQ(reason, "miss");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ask(), (std::pair<int, std::string>{home, "prefix"}));
  EXPECT_EQ(n_asked_, 2);  // each once
  EXPECT_EQ(sum(get("/metrics"), "quire_route_tokens_unsaid_total"), 2);
  EXPECT_EQ(sum(get("/metrics"), "quire_route_known_by_total{source=\"text\"}"), 6);
}

TEST_F(ByEvents, WhoIsLateIsNotWaitedFor) {
  b_.store(100, 4);
  silent_ = true;
  RouteLimits limits;
  limits.tokens_ms = 30;
  start("prefix", limits);
  EXPECT_TRUE(eventually([&] { return sum(get("/metrics"), "quire_worker_kv_blocks{") == 4; }));
  EXPECT_EQ(ask().second, "miss");
  EXPECT_EQ(n_asked_, 1);
}

TEST_F(ByEvents, AQuestionForTokensSaysNothingOfTheAnswerThatIsWanted) {
  b_.store(100, 4);
  start();
  ask("key", "",
      {{"X-Quire-Resumable", "1"},
       {"Accept-Encoding", "gzip"},
       {"Last-Event-ID", "3"},
       {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  EXPECT_EQ(n_asked_, 1);
  EXPECT_NE(asked_fields_.find("authorization\n"), std::string::npos);
  for (const char* name : {"x-quire-resumable", "accept-encoding", "last-event-id", "traceparent"})
    EXPECT_EQ(asked_fields_.find(name), std::string::npos) << name;
}

TEST_F(ByEvents, APromptUnderASaltThatIsTooLongIsKnownByItsText) {
  b_.store(100, 4);
  start();
  ask("", R"(,"cache_salt":")" + std::string(256, 's') + "\"");
  EXPECT_EQ(n_asked_, 1);
  ask("", R"(,"cache_salt":")" + std::string(257, 's') + "\"");
  EXPECT_EQ(n_asked_, 1);
}

TEST_F(ByEvents, AnAnswerThatIsTooLongSaysNoTokens) {
  b_.store(100, 4);
  behind_ = R"(,"more":")" + std::string(9 << 20, 'm') + "\"";
  start();
  EXPECT_TRUE(eventually([&] { return sum(get("/metrics"), "quire_worker_kv_blocks{") == 4; }));
  EXPECT_EQ(ask().second, "miss");
  EXPECT_EQ(n_asked_, 1);
  EXPECT_EQ(sum(get("/metrics"), "quire_route_tokens_unsaid_total"), 1);
}

TEST_F(ByEvents, PoliciesThatDoNotGoByItAskNobody) {
  b_.store(100, 4);
  start("least_load");
  ask();
  EXPECT_EQ(n_asked_, 0);
}

// A server of ours keeps what it computed for a key apart; the router learns from its answers what events call that.
TEST_F(ByEvents, AKeysBlocksAreFoundOnceAnAnswerHasNamedItsSalt) {
  b_.store(100, 4, 5);
  salt_ = b_.publisher->salt_name(5);
  start();
  EXPECT_TRUE(eventually([&] { return sum(get("/metrics"), "quire_worker_kv_blocks{") == 4; }));
  EXPECT_EQ(ask("other").second, "miss");
  // Short ones, of which nobody is asked for tokens, until one has been at the second worker.
  int at = 0;
  for (int i = 0; i < 10 && at != 2; ++i) {
    text_ = "short " + std::to_string(i);
    at = ask("key").first;
  }
  ASSERT_EQ(at, 2);
  for (int i = 0; i < 3; ++i) {
    anew();
    EXPECT_EQ(ask("key"), (std::pair<int, std::string>{2, "prefix"})) << i;
  }
  // Another key, or none, has nothing there.
  anew();
  EXPECT_EQ(ask("third").second, "miss");
  anew();
  EXPECT_EQ(ask().second, "miss");
}

TEST_F(ByEvents, AnAdaptersPromptsAreKnownByTheirText) {
  b_.store(100, 4);
  start();
  EXPECT_TRUE(eventually([&] { return sum(get("/metrics"), "quire_worker_kv_blocks{") == 4; }));
  EXPECT_EQ(ask("", R"(,"model":"adapter")").second, "miss");
  EXPECT_EQ(n_asked_, 0);
}

}  // namespace
}  // namespace quire
