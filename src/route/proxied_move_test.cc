// Streams that go on at another worker, between sockets that break them off where they like.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "route/front.h"
#include "route/testing.h"

namespace quire {
namespace {

const std::string kBody = R"({"prompt":"x","stream":true})";

std::string event(const std::string& text) { return "data: {\"text\":\"" + text + "\"}\n\n"; }

struct Script {
  int status = 200;
  std::string ticket{};  // empty: it does not know how to hand over
  std::string says{};    // bytes of the stream
  bool breaks = false;
  std::string type = "text/event-stream";
  bool has_length = false;       // and breaks off before it
  std::string retry_after = "";  // of one that is not 200
};

// What is answered to one request after the other, whoever is asked; the last one again and again.
struct Scripts {
  explicit Scripts(std::vector<Script> given) : scripts(std::move(given)) {}
  std::string answer(const std::string& head, const std::string& body) {
    const std::lock_guard lock(mu);
    const Script& now = scripts[std::min(bodies.size(), scripts.size() - 1)];
    bodies.push_back(body);
    const size_t at = head.find("x-quire-handover: ");
    asked += at == std::string::npos ? "-" : head.substr(at + 18, head.find('\r', at) - at - 18);
    if (now.status != 200)
      return "HTTP/1.1 " + std::to_string(now.status) + " No\r\nConnection: close\r\n" +
             (now.retry_after.empty() ? "" : "Retry-After: " + now.retry_after + "\r\n") +
             "Content-Length: 2\r\n\r\n{}";
    std::string out = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + now.type + "\r\n";
    if (!now.ticket.empty()) out += "x-quire-handover: " + now.ticket + "\r\n";
    if (now.has_length) return out + "Content-Length: 1000\r\n\r\n" + now.says;
    out += "Transfer-Encoding: chunked\r\n";
    char size[20];
    std::snprintf(size, sizeof size, "\r\n%zx\r\n", now.says.size());
    return out + size + now.says + (now.breaks ? "\r\n" : "\r\n0\r\n\r\n");
  }
  std::vector<std::string> asked_for() {
    const std::lock_guard lock(mu);
    return bodies;
  }
  std::mutex mu;
  const std::vector<Script> scripts;
  std::vector<std::string> bodies;
  std::string asked;
};

// A router of which the test sees the fleet, before a worker whose stream the test says piece by piece.
class SeenRouter {
 public:
  explicit SeenRouter(const std::string& ticket, int64_t event_bytes = RouteLimits().event_bytes)
      : worker_([this, ticket](HttpRequest&&, const ReplyPtr& reply) {
          HttpHeaders head{{"Content-Type", "text/event-stream"}};
          if (!ticket.empty()) head.push_back({std::string(kHandoverHeader), ticket});
          reply->start_stream(200, std::move(head));
          reply->flush();
          reply_.set_value(reply);
        }) {
    limits_.event_bytes = event_bytes;
    fleet_->set_workers({{{"127.0.0.1", worker_.server->port()}, ""}});
    fleet_->probed(*fleet_->workers()[0], Probe::well);
    server_ = std::move(*Server::start({}, front_.door()));
    client_.emplace(server_->port());
    client_->send(post_bytes(kBody));
    stream_ = reply_.get_future().get();
  }
  ~SeenRouter() { stream_->end(); }
  // Returns when the router has read it, or, with `seen`, when the client has.
  void say(const std::string& bytes, const std::string& seen = "") {
    const std::shared_ptr<Worker> worker = fleet_->workers()[0];
    const int64_t before_ns = worker->progressed_ns;
    stream_->write(bytes);
    stream_->flush();
    if (seen.empty())
      EXPECT_TRUE(eventually([&] { return worker->progressed_ns != before_ns; }));
    else
      EXPECT_NE(client_->read_until(seen).find(seen), std::string::npos);
  }
  bool has_begun() const { return fleet_->loads().at(0).n_decoding == 1; }

 private:
  Metrics metrics_;
  SystemClock clock_;
  RouteLimits limits_;
  std::promise<ReplyPtr> reply_;
  FakeWorker worker_;
  const std::shared_ptr<Fleet> fleet_ = std::make_shared<Fleet>("least_load", limits_, clock_, metrics_);
  RouteContext context_{limits_, clock_, metrics_, fleet_, nullptr};
  Front front_{context_, metrics_, {}};
  std::unique_ptr<Server> server_;
  std::optional<RawClient> client_;
  ReplyPtr stream_;
};

// A socket that answers so, and is well otherwise.
class Teller {
 public:
  explicit Teller(Scripts& scripts) : scripts_(scripts), thread_([this] { run(); }) {}
  ~Teller() {
    ends_ = true;
    RawClient wake(listener_.port());
    thread_.join();
  }
  WorkerSpec at() const { return {{"127.0.0.1", listener_.port()}, ""}; }

 private:
  void run() {
    while (true) {
      const int fd = listener_.accept();
      if (ends_ || fd < 0) {
        ::close(fd);
        return;
      }
      std::string asked = read_from(fd, "\r\n\r\n");
      if (asked.find("\r\n\r\n") == std::string::npos) {
        // Whoever connected left without a word, as a probe does whose router ends.
      } else if (asked.starts_with("GET")) {
        say_to(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
      } else {
        if (!asked.ends_with("true}")) asked += read_from(fd, "true}");
        const size_t body = asked.find("\r\n\r\n") + 4;
        say_to(fd, scripts_.answer(asked.substr(0, body), asked.substr(body)));
      }
      ::close(fd);
    }
  }
  Scripts& scripts_;
  RawListener listener_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

std::string behind(const std::string& ids, const std::string& told) {
  return R"({"handover":{"ticket":"t","choices":[{"tokens":[)" + ids + R"(],"told_bytes":)" + told +
         R"(}]},"prompt":"x","stream":true})";
}

TEST(ProxiedMove, AStreamGoesOnElsewhereBehindWhatTheClientHas) {
  // Each breaks off in the middle of what has no mark yet.
  Scripts scripts(
      {{200, "t", event("a") + ": handover 5,6 1\n\n" + event("b") + ": handover 7 2\n\n" + event("c"), true},
       {200, "t", event("c") + ": handover  3\n\n: handover 8 3\n\n" + event("lost"), true},
       {200, "t", event("d") + ": handover 9 4\n\n" + event("end") + "data: [DONE]\n\n", false}});
  const Teller one(scripts), two(scripts), three(scripts);
  TestRouter router({}, {}, {one.at(), two.at(), three.at()});
  const HttpResponse response =
      router.ask("POST", "/v1/completions", kBody, {{"X-Quire-Handover", "the client's own"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, event("a") + event("b") + event("c") + event("d") + event("end") + "data: [DONE]\n\n");
  EXPECT_EQ(response.header("x-quire-handover"), nullptr);
  EXPECT_EQ(scripts.asked_for(), (std::vector<std::string>{kBody, behind("5,6,7", "2"), behind("5,6,7,8", "3")}));
  EXPECT_EQ(scripts.asked, "111");
  EXPECT_NE(router.metrics.expose().find("quire_route_moved_streams_total 2"), std::string::npos);
  EXPECT_NE(router.metrics.expose().find("quire_route_cut_streams_total 0"), std::string::npos);
  EXPECT_TRUE(router.nothing_charged(3));
}

TEST(ProxiedMove, AResponseIsWhereItsEndWasTold) {
  const std::string created = "event: response.created\ndata: {\"response\":{\"id\":\"resp_1\"}}\n\n";
  Scripts scripts({{200, "t", created + event("a") + ": handover 5 1 0 2\n\n" + event("lost"), true},
                   {200, "t", event("b") + ": handover end 2 0 3\n\n" + event("end"), false}});
  const Teller one(scripts), two(scripts);
  TestRouter router({}, {}, {one.at(), two.at()});
  const HttpResponse response = router.ask("POST", "/v1/responses", R"({"input":"x","stream":true})");
  EXPECT_EQ(response.body, created + event("a") + event("b") + event("end"));
  EXPECT_EQ(scripts.asked_for()[1],
            R"({"handover":{"ticket":"t","choices":[{"tokens":[5],"told_bytes":1}],"n_events":2},)"
            R"("input":"x","stream":true})");
  const HttpResponse kept = router.ask("GET", "/v1/responses/resp_1");
  EXPECT_EQ(kept.status, 200);
  EXPECT_NE(*kept.header("x-quire-worker"), *response.header("x-quire-worker"));
}

// The first event of a response.
std::string created(const std::string& name) { return "data: {\"response\":{\"id\":\"" + name + "\"}}\n\n"; }

TEST(ProxiedMove, AResponseOfWhichNothingWasToldHasAnotherName) {
  Scripts scripts({{200, "t", created("resp_1"), true}, {200, "u", created("resp_2"), false}});
  const Teller one(scripts), two(scripts);
  TestRouter router({}, {}, {one.at(), two.at()});
  const HttpResponse response = router.ask("POST", "/v1/responses", R"({"input":"x","stream":true})");
  EXPECT_EQ(response.body, created("resp_2"));
  const HttpResponse kept = router.ask("GET", "/v1/responses/resp_2");
  EXPECT_EQ(*kept.header("x-quire-route"), "session");
  EXPECT_NE(*kept.header("x-quire-worker"), *response.header("x-quire-worker"));
}

// Only its worker knows what the request goes on from, until it has told that.
TEST(ProxiedMove, AResponseBehindAnotherOneMovesWithItsPast) {
  const std::string past = R"([{"role":"user","content":"x"}])";
  Scripts scripts({{200, "t", created("resp_1"), false},
                   {200, "t", created("resp_2") + ": handover past 1 " + past + "\n\n" + event("lost"), true},
                   {200, "t", event("a") + ": handover 5 1 0 2\n\n" + event("lost"), true},
                   {200, "t", event("b"), false}});
  const Teller one(scripts), two(scripts), three(scripts);
  TestRouter router({}, {}, {one.at(), two.at(), three.at()});
  const HttpResponse first = router.ask("POST", "/v1/responses", R"({"input":"x","stream":true})");
  const std::string body = R"({"previous_response_id":"resp_1","input":"y","stream":true})";
  const HttpResponse response = router.ask("POST", "/v1/responses", body);
  EXPECT_EQ(response.body, created("resp_2") + event("a") + event("b"));
  EXPECT_EQ(*response.header("x-quire-worker"), *first.header("x-quire-worker"));
  const auto behind_past = [&](const std::string& choices, const std::string& n_events) {
    return R"({"handover":{"ticket":"t","choices":[)" + choices + R"(],"n_events":)" + n_events + ",\"past\":" + past +
           "}," + body.substr(1);
  };
  const std::string first_body = R"({"input":"x","stream":true})";
  EXPECT_EQ(scripts.asked_for(), (std::vector<std::string>{first_body, body, behind_past("", "1"),
                                                           behind_past(R"({"tokens":[5],"told_bytes":1})", "2")}));
  const HttpResponse kept = router.ask("GET", "/v1/responses/resp_2");
  EXPECT_NE(*kept.header("x-quire-worker"), *first.header("x-quire-worker"));
  EXPECT_TRUE(router.nothing_charged(3));
}

// It takes the worker long to compute a prompt, and what comes before that comes in several reads.
TEST(ProxiedMove, APromptIsComputedOnceSomethingOfTheAnswerWasTold) {
  SeenRouter marked("t");
  marked.say(created("resp_1") + ": handover past 1 [{\"role\":");
  marked.say("\"user\"}]\n\n", "resp_1");
  EXPECT_FALSE(marked.has_begun());
  marked.say(event("a"));
  EXPECT_FALSE(marked.has_begun());
  marked.say(": handover 5 1 0 2\n\n", event("a"));
  EXPECT_TRUE(marked.has_begun());
  SeenRouter plain("");
  EXPECT_FALSE(plain.has_begun());
  plain.say(event("a"), event("a"));
  EXPECT_TRUE(plain.has_begun());
}

TEST(ProxiedMove, APastThatIsTooLongToBeHeldIsNoAnswer) {
  SeenRouter router("t", 50);
  router.say(created("resp_1") + ": handover past 1 [\"" + std::string(100, 'x') + "\"]\n\n", "resp_1");
  router.say(event("a"), event("a"));
  EXPECT_FALSE(router.has_begun());
}

TEST(ProxiedMove, SeveralChoicesGoOnEachWhereItWas) {
  Scripts scripts({{200, "t", event("a") + ": handover 5 1 2\n\n" + event("b") + ": handover end 2 1\n\n", true},
                   {200, "t", event("c") + ": handover 6 2 2\n\n" + event("d") + ": handover 7 1\n\n", true},
                   {200, "t", event("end"), false}});
  const Teller one(scripts), two(scripts), three(scripts);
  TestRouter router({}, {}, {one.at(), two.at(), three.at()});
  EXPECT_EQ(router.post(kBody).body, event("a") + event("b") + event("c") + event("d") + event("end"));
  const auto behind_choices = [](const std::string& choices) {
    return R"({"handover":{"ticket":"t","choices":[)" + choices + R"(]},"prompt":"x","stream":true})";
  };
  const std::string over = R"({"tokens":[],"told_bytes":2,"over":true},)";
  EXPECT_EQ(scripts.asked_for(),
            (std::vector<std::string>{
                kBody, behind_choices("{}," + over + R"({"tokens":[5],"told_bytes":1})"),
                behind_choices(R"({"tokens":[7],"told_bytes":1},)" + over + R"({"tokens":[5,6],"told_bytes":2})")}));
}

TEST(ProxiedMove, LinesOfOllamaGoOnToo) {
  const auto line = [](const std::string& text) { return "{\"response\":\"" + text + "\"}\n"; };
  const std::string lines = "application/x-ndjson";
  Scripts scripts({{200, "t", line("a") + ": handover 5,6 1\n" + line("b"), true, lines},
                   {200, "t", line("b") + ": handover 7 2\n" + line("c"), true, lines},
                   {200, "t", event("c") + ": handover 8 3\n\n", false},  // no lines: it is not asked again
                   {200, "t", line("c") + ": handover 8 3\n" + line("end"), false, lines}});
  const Teller one(scripts), two(scripts), three(scripts), four(scripts);
  TestRouter router({}, {}, {one.at(), two.at(), three.at(), four.at()});
  const HttpResponse response = router.ask("POST", "/api/generate", kBody);
  EXPECT_EQ(response.body, line("a") + line("b") + line("c") + line("end"));
  EXPECT_EQ(scripts.asked_for(),
            (std::vector<std::string>{kBody, behind("5,6", "1"), behind("5,6,7", "2"), behind("5,6,7", "2")}));
}

// Reads end where they like, in marks too.
TEST(ProxiedMove, NoMarkIsPassedOnBehindALineThatIsTooLong) {
  RouteLimits limits;
  limits.event_bytes = 30;
  const std::string line = "{\"response\":\"" + std::string(500, 'x') + ": handover 1 1\"}\n";
  std::string ids = "1", says, told;
  for (int i = 0; i < 400; ++i) ids += ",5";
  for (int i = 0; i < 1000; ++i) {
    says += line;
    says += ": handover " + ids + " 1\n";
    told += line;
  }
  Scripts scripts({{200, "t", says, false, "application/x-ndjson"}});
  const Teller only(scripts);
  TestRouter router({}, limits, {only.at()});
  const std::string body = router.ask("POST", "/api/chat", kBody).body;
  EXPECT_EQ(body.size(), told.size());
  EXPECT_TRUE(body == told);
}

TEST(ProxiedMove, WhatWasNotToldAtAllIsAskedAnew) {
  Scripts scripts({{200, "t", event("lost"), true}, {200, "u", event("a") + ": handover 5 1\n\n" + event("b"), false}});
  const Teller only(scripts);
  TestRouter router({}, {}, {only.at()});
  EXPECT_EQ(router.post(kBody).body, event("a") + event("b"));
  EXPECT_EQ(scripts.asked_for(), (std::vector<std::string>{kBody, kBody}));
}

TEST(ProxiedMove, AResponseWhosePastWasNotToldStaysWhereThatIs) {
  Scripts scripts({{200, "t", created("resp_1"), false}, {200, "t", created("resp_2"), true}});
  const Teller one(scripts), two(scripts);
  TestRouter router({}, {}, {one.at(), two.at()});
  router.ask("POST", "/v1/responses", R"({"input":"x","stream":true})");
  const HttpResponse response =
      router.ask("POST", "/v1/responses", R"({"input":"x","previous_response_id":"resp_1","stream":true})");
  EXPECT_TRUE(response.body.starts_with("event: error\n")) << response.body;
  EXPECT_NE(response.body.find("bad_worker"), std::string::npos);
  EXPECT_EQ(scripts.asked, "11") << "nobody else has its past";
}

TEST(ProxiedMove, WhatWasGatheredInVainSaysNothingOfTheNextAnswer) {
  Scripts scripts({{.ticket = "t", .says = event("lost"), .has_length = true}, {200, "", event("a"), true}});
  const Teller one(scripts), two(scripts);
  TestRouter router({}, {}, {one.at(), two.at()});
  const HttpResponse response = router.post(kBody);
  EXPECT_TRUE(response.body.starts_with(event("a") + "event: error\n")) << response.body;
  EXPECT_EQ(scripts.asked_for().size(), 2U);
}

TEST(ProxiedMove, ARequestThatEndsItsWorkersEndsItself) {
  RouteLimits limits;
  limits.n_moves = 2;
  limits.n_failures = 1000;
  for (const std::string& says : {event("lost"), std::string(": handover  1\n\n")}) {  // a mark that says nothing new
    Scripts scripts({{200, "t", event("a") + ": handover 5 1\n\n", true}, {200, "t", says, true}});
    const Teller only(scripts);
    TestRouter router({}, limits, {only.at()});
    const HttpResponse response = router.post(kBody);
    EXPECT_TRUE(response.body.starts_with(event("a") + "event: error\ndata: {\"error\":")) << response.body;
    EXPECT_EQ(scripts.asked_for().size(), 3U);
    EXPECT_NE(router.metrics.expose().find("quire_route_cut_streams_total 1"), std::string::npos);
  }
}

TEST(ProxiedMove, WhoWouldNotSayTheSameIsAskedOnce) {
  RouteLimits limits;
  limits.wait_ms = 200;
  limits.n_failures = 1000;
  for (const Script& other :
       {Script{409, "", "", false}, Script{200, "other", event("z"), false}, Script{200, "", event("z"), false}}) {
    Scripts scripts({{200, "t", event("a") + ": handover 5 1\n\n", true}, other});
    const Teller only(scripts);
    TestRouter router({}, limits, {only.at()});
    const HttpResponse response = router.post(kBody);
    EXPECT_TRUE(response.body.starts_with(event("a") + "event: error\n")) << response.body;
    EXPECT_EQ(response.body.find('z'), std::string::npos);
    EXPECT_EQ(scripts.asked_for(), (std::vector<std::string>{kBody, behind("5", "1")}));
  }
}

// The other is busy, then both are; each time all are, there is a pause.
TEST(ProxiedMove, WhoIsBusyIsAskedAgainAfterAPause) {
  const auto expect_pauses = [](const std::vector<Script>& busy, int64_t wait_ms, int64_t least_ms) {
    std::vector<Script> given{{200, "t", event("a") + ": handover 5 1\n\n", true}};
    given.insert(given.end(), busy.begin(), busy.end());
    given.push_back({200, "t", event("b"), false});
    Scripts scripts(given);
    const Teller one(scripts), two(scripts);
    RouteLimits limits;
    limits.wait_ms = wait_ms;
    TestRouter router({}, limits, {one.at(), two.at()});
    const int64_t begin_ms = test_now_ms();
    EXPECT_EQ(router.post(kBody).body, event("a") + event("b"));
    EXPECT_GE(test_now_ms() - begin_ms, least_ms);
    EXPECT_EQ(scripts.asked_for().size(), given.size());
  };
  const Script busy{.status = 429}, slow{.status = 429, .retry_after = "1"}, late{.status = 429, .retry_after = "60"};
  expect_pauses({busy, busy, {.status = 503}}, 20'000, 750);
  expect_pauses({slow, slow, late}, 20'000, 2000);
  expect_pauses({late}, 2000, 1750);  // once more before it has waited for long enough
}

TEST(ProxiedMove, OnlyStreamsWithMarksMoveAndOnlyWhereTheyMay) {
  RouteLimits limits;
  limits.n_failures = 1000;
  std::string asked;
  const auto broken = [&asked](const Script& script, const RouteLimits& with, const std::string& body) {
    Scripts scripts({script});
    const Teller only(scripts);
    TestRouter router({}, with, {only.at()});
    const HttpResponse response = router.post(body);
    EXPECT_EQ(scripts.asked_for().size(), 1U);
    asked = scripts.asked;
    return response.body;
  };
  const std::string plain = broken({200, "", event("a") + event("b"), true}, limits, kBody);
  EXPECT_TRUE(plain.starts_with(event("a") + event("b") + "event: error\n")) << plain;
  EXPECT_EQ(asked, "1");
  broken({200, "t", event("a") + ": handover 5 1\n\n", true}, limits, R"({"handover":{},"stream":true})");
  EXPECT_EQ(asked, "-");
  limits.n_moves = 0;
  broken({200, "t", event("a"), true}, limits, kBody);
  EXPECT_EQ(asked, "-");
  limits.n_moves = 3;
  limits.event_bytes = 30;  // too few for what has to be remembered: then it is passed on as it comes
  std::string many, told;
  for (int i = 0; i < 20; ++i) {
    many += event("a") + ": handover 5,6,7 1\n\n";
    told += event("a");
  }
  const std::string passed = broken({200, "t", many, true}, limits, kBody);
  EXPECT_TRUE(passed.starts_with(told + "event: error\n")) << passed;
}

}  // namespace
}  // namespace quire
