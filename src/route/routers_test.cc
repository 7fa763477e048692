// Two routers that know nothing of each other, before the same two workers: what one gives the other sees, by the
// workers' word alone.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "route/testing.h"

namespace quire {
namespace {

// Says how many requests it has, as ours or as vLLM, and holds each until it is let go.
class HoldingWorker {
 public:
  explicit HoldingWorker(bool ours)
      : ours_(ours), handler_([this](HttpRequest&& request, const ReplyPtr& reply) {
          if (request.method == "GET")
            reply->send(200, {}, said_at(request.target));
          else
            hold(reply);
        }) {
    server_ = std::move(*Server::start({}, handler_));
  }
  WorkerSpec spec() const { return {{"127.0.0.1", server_->port()}, ""}; }
  int n_given() const { return n_given_; }
  int n_weighed() const { return n_weighed_; }
  void let_go() {
    const std::lock_guard lock(mu_);
    for (const ReplyPtr& reply : std::exchange(held_, {})) reply->send(200, {}, "{}");
  }

 private:
  void hold(const ReplyPtr& reply) {
    const std::lock_guard lock(mu_);
    held_.push_back(reply);
    ++n_given_;
  }
  std::string said_at(const std::string& target) {
    const std::lock_guard lock(mu_);
    const std::string n = std::to_string(held_.size());
    if (target == "/v1/models" && ours_) return R"({"data":[{"id":"m","owned_by":"quire"}]})";
    if (target != (ours_ ? "/load" : "/metrics")) return "{}";
    ++n_weighed_;
    return ours_ ? R"({"running":)" + n + R"(,"waiting":0})" : "vllm:num_requests_running{engine=\"0\"} " + n + "\n";
  }

  const bool ours_;
  std::mutex mu_;
  std::vector<ReplyPtr> held_;
  std::atomic<int> n_given_{0}, n_weighed_{0};
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;  // last: its threads use the others
};

struct TwoRouters {
  explicit TwoRouters(bool ours) : workers{HoldingWorker(ours), HoldingWorker(ours)} {
    RouteOptions options;
    options.port = 0;
    options.policy = "least_load";
    options.limits.probe_ms = 20;
    for (HoldingWorker& worker : workers) options.workers.push_back(worker.spec());
    for (size_t i = 0; i < 2; ++i) routers[i] = std::move(*start_router(options, metrics[i]));
    EXPECT_TRUE(eventually([&] { return count(0, kUsable) == 2 && count(1, kUsable) == 2; }));
  }
  ~TwoRouters() {
    for (HoldingWorker& worker : workers) worker.let_go();
    for (std::thread& asker : askers) asker.join();
  }
  int count(size_t router, std::string_view text) const { return count_in_workers(*routers[router], text); }
  int n_given() const { return workers[0].n_given() + workers[1].n_given(); }
  void ask(size_t router) {
    const int n = n_given();
    askers.emplace_back([port = routers[router]->port()] {
      RawClient client(port);
      client.send(post_bytes(R"({"prompt":"x"})"));
      client.read_until("}");
    });
    EXPECT_TRUE(eventually([&] { return n_given() == n + 1; }));
  }

  static constexpr std::string_view kUsable = R"("usable":true)", kOneUnseen = R"("unseen_requests":1)";
  HoldingWorker workers[2];
  Metrics metrics[2];
  std::unique_ptr<RouteServer> routers[2];
  std::vector<std::thread> askers;
};

TEST(Routers, SeeByTheWorkersWordWhatOthersGave) {
  for (const bool ours : {true, false}) {
    TwoRouters world(ours);
    world.ask(0);
    HoldingWorker& idle = world.workers[world.workers[0].n_given() > 0 ? 1 : 0];
    EXPECT_TRUE(eventually([&] { return world.count(1, world.kOneUnseen) == 1; })) << ours;
    world.ask(1);
    EXPECT_EQ(idle.n_given(), 1) << ours;
    EXPECT_TRUE(eventually([&] { return world.count(0, world.kOneUnseen) == 1; })) << ours;
    EXPECT_EQ(world.count(0, R"("requests":1)"), 1) << "what it gave itself is not counted twice";
    for (HoldingWorker& worker : world.workers) worker.let_go();
    for (const size_t router : {size_t{0}, size_t{1}})
      EXPECT_TRUE(eventually([&] { return world.count(router, R"("unseen_requests":0)") == 2; })) << ours;
  }
}

// Who says nothing is asked again only when its models are, each tenth time.
TEST(Routers, AWorkerThatSaysNothingIsSeldomAsked) {
  std::atomic<int> n_well{0}, n_weighed{0};
  FunctionHandler handler([&](HttpRequest&& request, const ReplyPtr& reply) {
    n_well += request.target == "/health";
    n_weighed += request.target == "/metrics";
    reply->send(request.target == "/metrics" ? 404 : 200, {}, "{}");
  });
  const auto worker = std::move(*Server::start({}, handler));
  RouteLimits limits;
  limits.probe_ms = 100;
  const TestRouter router({}, limits, {{{"127.0.0.1", worker->port()}, ""}});
  EXPECT_TRUE(eventually([&] { return n_well >= 12; }));
  EXPECT_GE(n_weighed, 1);
  EXPECT_LE(n_weighed, n_well / 4);
}

// A worker whose word has no end: bytes that dribble, or more of them than anybody's metrics are.
class EndlessWorker {
 public:
  EndlessWorker() : handler_([this](const HttpRequest& request, const ReplyPtr& reply) { answer(request, reply); }) {
    server_ = std::move(*Server::start({}, handler_));
    limits.probe_ms = 20;
  }
  ~EndlessWorker() {
    const std::lock_guard lock(mu_);
    for (const ReplyPtr& reply : begun_) reply->end();
  }
  void say(std::string_view bytes) {
    const std::lock_guard lock(mu_);
    for (const ReplyPtr& reply : begun_) {
      reply->write(bytes);
      reply->flush();
    }
  }
  WorkerSpec spec() const { return {{"127.0.0.1", server_->port()}, ""}; }
  RouteLimits limits;  // of the router before it
  std::atomic<bool> is_endless{false};
  std::atomic<int> n_closed{0};

 private:
  void answer(const HttpRequest& request, const ReplyPtr& reply) {
    if (request.target != "/metrics") return static_cast<void>(reply->send(200, {}, "{}"));
    if (!is_endless) return static_cast<void>(reply->send(200, {}, "vllm:num_requests_running 3\n"));
    const std::lock_guard lock(mu_);
    reply->on_close([this](CloseReason) { ++n_closed; });
    reply->start_stream(200, {});
    reply->flush();
    begun_.push_back(reply);
  }
  std::mutex mu_;
  std::vector<ReplyPtr> begun_;
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;  // last: its threads use the others
};

TEST(Routers, AWordThatDribblesIsGivenUpAndTheOldOneIsForgotten) {
  EndlessWorker worker;
  worker.limits.connect_ms = worker.limits.probe_answer_ms = 200;
  TestRouter router({}, worker.limits, {worker.spec()});
  EXPECT_TRUE(eventually([&] { return router.count(R"("unseen_requests":3,)") == 1; }));
  worker.is_endless = true;
  EXPECT_TRUE(eventually([&] {
    worker.say("#\n");
    return router.count(R"("unseen_requests":0,)") == 1;
  }));
}

TEST(Routers, AWordThatIsTooLongIsNotReadOn) {
  EndlessWorker worker;
  worker.is_endless = true;
  worker.limits.probe_answer_ms = 600'000;
  const TestRouter router({}, worker.limits, {worker.spec()});
  const std::string much(64 << 10, '#');
  EXPECT_TRUE(eventually([&] {
    worker.say(much);
    return worker.n_closed > 0;
  }));
}

}  // namespace
}  // namespace quire
