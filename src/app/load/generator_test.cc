// The generator against a server of scripted answers.
#include "app/load/generator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "http/testing.h"

namespace quire {
namespace {

constexpr const char* kAnswer =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\" two\"},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,"
    "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\n"
    "data: [DONE]\n\n";

void answer(Reply& reply, const std::string& stream) {
  reply.start_stream(200, sse_headers());
  reply.write(stream);
  reply.end();
}

// Listens with a function; `options.remote` leads there.
struct Scripted {
  explicit Scripted(FunctionHandler::Function fn) : handler(std::move(fn)) {
    auto started = Server::start({}, handler);
    EXPECT_TRUE(started);
    server = std::move(*started);
    options.remote = {"127.0.0.1", server->port(), "", "key"};
    options.timeout_ms = 5000;
  }
  ~Scripted() { server->stop(0); }
  Json run(const WorkloadOptions& work) {
    const auto workload = Workload::make(work);
    EXPECT_TRUE(workload);
    return run_load(*workload, options).json();
  }
  FunctionHandler handler;
  std::unique_ptr<Server> server;
  GeneratorOptions options;
};

int64_t count(const Json& report, const char* what) { return *report.find("requests")->find(what)->as_int(); }

TEST(Generator, CountsWhatTheServerSays) {
  Scripted s([](HttpRequest&& request, ReplyPtr reply) {
    EXPECT_EQ(request.path, "/v1/chat/completions");
    EXPECT_EQ(*request.header("authorization"), "Bearer key");
    answer(*reply, kAnswer);
  });
  s.options.users = 3;
  const Json report = s.run({.n_sessions = 10});
  EXPECT_EQ(count(report, "ok"), 10);
  EXPECT_EQ(count(report, "failed"), 0);
  EXPECT_EQ(*report.find("output_tokens")->as_int(), 30);
  EXPECT_EQ(*report.find("prompt_tokens")->as_int(), 70);
  EXPECT_EQ(*report.find("cached_tokens")->as_int(), 50);
  EXPECT_EQ(*report.find("ttft_ms")->find("n")->as_int(), 10);
  EXPECT_EQ(*report.find("itl_ms")->find("n")->as_int(), 10);
}

TEST(Generator, ATurnHoldsTheConversationBeforeIt) {
  std::mutex mu;
  std::vector<size_t> lengths;
  std::string last;
  Scripted s([&](HttpRequest&& request, ReplyPtr reply) {
    const Json body = *Json::parse(request.body);
    {
      const std::lock_guard lock(mu);
      const Json::Array& messages = *body.find("messages")->as_array();
      lengths.push_back(messages.size());
      if (messages.size() > 3) last = *messages[2].find("content")->as_string();
    }
    answer(*reply, kAnswer);
  });
  const Json report = s.run({.n_sessions = 1, .turns = 3, .shared_tokens = 10});
  EXPECT_EQ(count(report, "ok"), 3);
  EXPECT_EQ(lengths, (std::vector<size_t>{2, 4, 6}));
  EXPECT_EQ(last, "one two");
}

TEST(Generator, TellsFailuresApart) {
  std::atomic<int> n{0};
  Scripted s([&](HttpRequest&&, ReplyPtr reply) {
    switch (n++ % 5) {
      case 0: send_error(*reply, {429, "full", "overload", "", ""}); break;
      case 1: answer(*reply, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"); break;
      case 2: answer(*reply, "event: error\ndata: {\"error\":{\"message\":\"broken\"}}\n\n"); break;
      case 3: answer(*reply, "data: nonsense\n\n"); break;
      default: answer(*reply, kAnswer);
    }
  });
  const Json report = s.run({.n_sessions = 10});
  EXPECT_EQ(count(report, "ok"), 2);
  EXPECT_EQ(count(report, "failed"), 8);
  const Json& failures = *report.find("failures");
  for (const char* kind : {"http_429", "cut", "stream", "protocol"}) {
    ASSERT_NE(failures.find(kind), nullptr) << kind;
    EXPECT_EQ(*failures.find(kind)->find("n")->as_int(), 2) << kind;
  }
  EXPECT_EQ(*failures.find("http_429")->find("example")->as_string(), "full");
  EXPECT_EQ(*failures.find("stream")->find("example")->as_string(), "broken");
}

TEST(Generator, AClientThatLeavesIsNoFailure) {
  Scripted s([](HttpRequest&&, ReplyPtr reply) { answer(*reply, kAnswer); });
  s.options.leave = 1;
  const Json report = s.run({.n_sessions = 20, .max_tokens = 1});
  EXPECT_EQ(count(report, "left"), 20);
  EXPECT_EQ(count(report, "failed"), 0);
}

// Ten requests are due within nine milliseconds, one may be in flight, and each takes at least twenty: the last one's
// latency is at least ten answers less nine milliseconds, although its own answer took twenty.
TEST(Generator, LatencyCountsFromWhenARequestWasDue) {
  Scripted s([](HttpRequest&&, ReplyPtr reply) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    answer(*reply, kAnswer);
  });
  s.options.max_in_flight = 1;
  const Json report = s.run({.rate = 1000, .arrivals = "fixed", .n_sessions = 10});
  EXPECT_EQ(count(report, "ok"), 10);
  EXPECT_GE(report.find("e2e_ms")->find("max")->number(), 190.0);
  EXPECT_GE(report.find("ttft_ms")->find("max")->number(), 190.0);
  EXPECT_GE(report.find("e2e_ms")->find("mean")->number(), 100.0);
}

TEST(Generator, GoodputIsWhatKeptTheObjective) {
  Scripted s([](HttpRequest&&, ReplyPtr reply) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    answer(*reply, kAnswer);
  });
  s.options.slo.e2e_ms = 1;
  EXPECT_EQ(*s.run({.n_sessions = 4}).find("goodput")->find("requests")->as_int(), 0);
  s.options.slo.e2e_ms = 60'000;
  EXPECT_EQ(*s.run({.n_sessions = 4}).find("goodput")->find("requests")->as_int(), 4);
}

TEST(Remote, ReadsAddresses) {
  const auto parts = [](const std::string& url) {
    const auto r = parse_remote(url);
    return r ? r->host + "|" + std::to_string(r->port) + "|" + r->base : r.error().message;
  };
  EXPECT_EQ(parts("http://a.b:81/v1/"), "a.b|81|");
  EXPECT_EQ(parts("localhost"), "localhost|80|");
  EXPECT_EQ(parts("http://h:1/x/v1"), "h|1|/x");
  EXPECT_EQ(parts("http://[::1]:9"), "::1|9|");
  EXPECT_EQ(parts("http://h:0"), "\"http://h:0\" is no address of a server: the port must be 1 to 65535, got \"0\"");
  EXPECT_EQ(parts("http://h:8x"), "\"http://h:8x\" is no address of a server: the port must be 1 to 65535, got \"8x\"");
  EXPECT_EQ(parts("http:///v1"), "\"http:///v1\" is no address of a server: no host");
  EXPECT_EQ(parts("http://[::1"), "\"http://[::1\" is no address of a server: no ] after [");
}

}  // namespace
}  // namespace quire
