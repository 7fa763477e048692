// Engines as processes: scripts of the shell that say what a server says, before servers of this test.
#include "route/local_engines.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "http/client.h"
#include "http/testing.h"
#include "route/run.h"

namespace quire {
namespace {

ChildSpec script(const std::string& text) { return {"/bin/sh", {"sh", "-c", text}, {"PATH=/usr/bin:/bin"}, ""}; }

// A child that listens at `port`, as it says, and leaves its number in a file.
ChildSpec listener(int port, const std::string& pid_file = "/dev/null") {
  return script("echo $$ >> " + pid_file +
                "; echo loading >&2; echo listening on http://127.0.0.1:" + std::to_string(port) + "; exec sleep 1000");
}

LocalModel model(std::string name, ChildSpec command) {
  LocalModel out;
  out.name = std::move(name);
  out.command = std::move(command);
  out.bytes = 10;
  return out;
}

std::vector<pid_t> pids_in(const std::string& file) {
  std::ifstream in(file);
  std::vector<pid_t> out;
  for (pid_t pid = 0; in >> pid;) out.push_back(pid);
  return out;
}

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0; }

class TempFile {
 public:
  TempFile() {
    const int fd = ::mkstemp(path.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
  }
  ~TempFile() { ::unlink(path.c_str()); }
  std::string path = "/tmp/quire_engines_XXXXXX";
};

// A server of the test that answers with its name.
struct Backend {
  explicit Backend(std::string name)
      : handler([this, name = std::move(name)](HttpRequest&& request, const ReplyPtr& reply) {
          if (request.method == "GET") {
            if (request.header("authorization") != nullptr) ++n_keys;
            reply->send(200, {}, "{}");
            return;
          }
          ++n_asked;
          if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
          reply->send(200, {{"Content-Type", "application/json"}}, "{\"by\":\"" + name + "\"" + more + "}");
        }) {
    ServerOptions options;
    options.limits.linger_ms = 20;
    options.n_io_threads = 2;
    server = std::move(*Server::start(options, handler));
  }
  int port() const { return server->port(); }
  std::atomic<int> n_asked{0}, n_keys{0};  // n_keys: questions that came with one
  int delay_ms = 0;
  std::string more;  // of its answers
  FunctionHandler handler;
  std::unique_ptr<Server> server;
};

struct Router {
  explicit Router(std::vector<LocalModel> models,
                  EngineRules rules = {},
                  RouteLimits limits = {},
                  std::string worker_key = "") {
    RouteOptions options;
    options.port = 0;
    options.n_io_threads = 2;
    options.local.models = std::move(models);
    options.local.rules = rules;
    options.limits = limits;
    options.worker_key = std::move(worker_key);
    router = std::move(*start_router(options, metrics));
  }
  explicit Router(RouteOptions options) {
    options.port = 0;
    options.n_io_threads = 2;
    options.limits.model_look_ms = 5;
    router = std::move(*start_router(options, metrics));
  }
  HttpResponse ask(const std::string& method, const std::string& path, std::string body = "") const {
    HttpClient client(ClientOptions{.port = router->port()});
    auto response = client.request({method, path, {{"Content-Type", "application/json"}}, std::move(body)});
    EXPECT_TRUE(response) << response.error().message;
    return response ? *response : HttpResponse{};
  }
  HttpResponse complete(const std::string& name, const std::string& more = "") const {
    return ask("POST", "/v1/completions", "{\"model\":\"" + name + "\",\"prompt\":\"x\"" + more + "}");
  }
  bool is(const std::string& name, const std::string& state) const {
    const std::string list = ask("GET", "/models").body;
    const size_t at = list.find("\"id\":\"" + name + "\"");
    return at != std::string::npos &&
           list.find("\"value\":\"" + state + "\"", at) < std::min(list.find("\"id\"", at + 1), list.size());
  }
  Metrics metrics;
  std::unique_ptr<RouteServer> router;
};

TEST(LocalEngines, TheFirstRequestStartsItAllAreListedAndItEndsWithTheRouter) {
  Backend one("one");
  const TempFile pids;
  pid_t pid = 0;
  {
    const Router router({model("one", listener(one.port(), pids.path)), model("two", listener(one.port()))});
    EXPECT_TRUE(router.is("one", "unloaded"));
    EXPECT_EQ(router.ask("GET", "/ready").status, 200);
    EXPECT_TRUE(pids_in(pids.path).empty());
    const HttpResponse answer = router.complete("one");
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, "{\"by\":\"one\"}");
    EXPECT_EQ(*answer.header("x-quire-worker"), "one");
    EXPECT_TRUE(router.is("one", "loaded"));
    EXPECT_TRUE(router.is("two", "unloaded"));
    const std::string tags = router.ask("GET", "/api/tags").body, ps = router.ask("GET", "/api/ps").body;
    EXPECT_NE(tags.find("\"name\":\"two\""), std::string::npos);
    EXPECT_NE(ps.find("\"name\":\"one\""), std::string::npos);
    EXPECT_EQ(ps.find("\"name\":\"two\""), std::string::npos);
    EXPECT_NE(router.ask("GET", "/api/version").body.find(QR_VERSION), std::string::npos);
    EXPECT_EQ(router.complete("one:latest").status, 200);
    ASSERT_EQ(pids_in(pids.path).size(), 1U);
    pid = pids_in(pids.path)[0];
    EXPECT_FALSE(is_gone(pid));
  }
  EXPECT_TRUE(is_gone(pid));
}

TEST(LocalEngines, LearnedPrefixesAndAdaptersAreAskedForByTheirNamesBehindTheModels) {
  Backend one("one");
  LocalModel with = model("one", listener(one.port()));
  with.variants = {"radio", "pirate"};
  const Router router({with, model("two", listener(one.port()))});
  EXPECT_TRUE(router.is("one:radio", "unloaded"));
  EXPECT_NE(router.ask("GET", "/api/tags").body.find("\"name\":\"one:pirate\""), std::string::npos);
  const HttpResponse answer = router.complete("one:radio");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(*answer.header("x-quire-worker"), "one");
  EXPECT_TRUE(router.is("one:pirate", "loaded"));
  EXPECT_EQ(router.ask("GET", "/api/ps").body.find("one:radio"), std::string::npos);
  for (const char* unknown : {"two:radio", "one:other", "one:", "one:radio:radio", "radio", ":radio"})
    EXPECT_EQ(router.complete(unknown).status, 404) << unknown;
}

TEST(LocalEngines, ModelsComeAndGoWithTheirFiles) {
  Backend one("one"), two("two");
  one.delay_ms = 200;
  const TempFile pids;
  const LocalModel first = model("one", listener(one.port(), pids.path)), second = model("two", listener(two.port()));
  std::mutex mu;
  std::vector<LocalModel> now{first};
  RouteOptions options;
  options.local.models = now;
  options.local.reread = [&]() -> Result<std::vector<LocalModel>> {
    const std::lock_guard lock(mu);
    return now;
  };
  const auto set = [&](std::vector<LocalModel> models) {
    const std::lock_guard lock(mu);
    now = std::move(models);
  };
  const Router router(options);
  const auto lists = [&](const std::string& path, const std::string& name) {
    return router.ask("GET", path).body.find("\"" + name + "\"") != std::string::npos;
  };
  EXPECT_EQ(router.complete("two").status, 404);
  set({first, second});
  EXPECT_TRUE(eventually([&] { return lists("/v1/models", "two") && lists("/api/tags", "two"); }));
  EXPECT_EQ(router.complete("two").body, "{\"by\":\"two\"}");
  // A request that is under way ends as ever, and its engine with it.
  HttpResponse slow;
  std::thread client([&] { slow = router.complete("one"); });
  EXPECT_TRUE(eventually([&] { return one.n_asked == 1; }));
  set({second});
  EXPECT_TRUE(eventually([&] { return !lists("/v1/models", "one"); }));
  EXPECT_FALSE(lists("/api/tags", "one"));
  EXPECT_EQ(router.complete("one").status, 404);
  client.join();
  EXPECT_EQ(slow.body, "{\"by\":\"one\"}");
  EXPECT_TRUE(eventually([&] { return is_gone(pids_in(pids.path).at(0)); }));
  EXPECT_EQ(router.ask("POST", "/v1/completions", "{}").body, "{\"by\":\"two\"}") << "the only one";
  set({});
  EXPECT_TRUE(eventually([&] { return !lists("/v1/models", "two"); }));
  EXPECT_EQ(router.ask("POST", "/v1/completions", "{}").status, 404);
  EXPECT_EQ(router.ask("GET", "/props").status, 404);
  set({first});
  EXPECT_TRUE(eventually([&] { return lists("/v1/models", "one"); }));
  EXPECT_EQ(router.complete("one").body, "{\"by\":\"one\"}");
  EXPECT_EQ(pids_in(pids.path).size(), 2U);
  set({first, second, model("also", listener(two.port()))});  // lists are by name, whenever a model came
  EXPECT_TRUE(eventually([&] { return lists("/v1/models", "also"); }));
  for (const char* path : {"/v1/models", "/api/tags"}) {
    const std::string body = router.ask("GET", path).body;
    EXPECT_LT(body.find("\"also\""), body.find("\"one\"")) << body;
  }
}

TEST(LocalEngines, AModelIsShownWithoutBeingLoaded) {
  Backend one("one");
  const TempFile pids;
  RouteOptions options;
  options.local.models = {model("one", listener(one.port(), pids.path)), model("two", listener(one.port(), pids.path))};
  options.local.show = [](const LocalModel& m) {
    return m.name == "one" ? R"({"details":{"family":"llama"},"template":"t"})" : "";
  };
  const Router router(options);
  EXPECT_TRUE(eventually([&] {
    return router.ask("POST", "/api/show", R"({"model":"one:latest"})").body ==
           R"({"details":{"family":"llama"},"template":"t"})";
  }));
  EXPECT_NE(router.ask("GET", "/api/tags").body.find(R"("details":{"family":"llama"})"), std::string::npos);
  const HttpResponse unknown = router.ask("POST", "/api/show", R"({"name":"two"})");  // its file says nothing
  EXPECT_EQ(unknown.status, 200);
  EXPECT_NE(unknown.body.find(R"("capabilities":["completion"])"), std::string::npos) << unknown.body;
  EXPECT_EQ(router.ask("POST", "/api/show", "{}").status, 400);
  EXPECT_EQ(router.ask("POST", "/api/show", R"({"model":"three"})").status, 404);
  EXPECT_EQ(router.ask("POST", "/api/show", "[").status, 400);
  EXPECT_TRUE(pids_in(pids.path).empty());
}

TEST(LocalEngines, ModelsThatAreNotHereAndFieldsThatAreWrongAreRefusedByName) {
  Backend one("one");
  const TempFile pids;
  const Router router({model("one", listener(one.port(), pids.path)), model("two", listener(one.port(), pids.path))});
  const HttpResponse unknown = router.complete("../one");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("the model '../one' is not here"), std::string::npos);
  const HttpResponse unnamed = router.ask("POST", "/v1/completions", "{\"prompt\":\"x\"}");
  EXPECT_EQ(unnamed.status, 400);
  EXPECT_NE(unnamed.body.find("model is required: there are 2 models here"), std::string::npos);
  for (const char* bad : {"\"abc\"", "1e300", "true", "\"\"", "\"5x\""}) {
    const HttpResponse refused =
        router.ask("POST", "/api/generate", std::string(R"({"model":"one","prompt":"x","keep_alive":)") + bad + "}");
    EXPECT_EQ(refused.status, 400) << bad;
    EXPECT_TRUE(refused.body.starts_with("{\"error\":\"keep_alive must be ")) << refused.body;
  }
  EXPECT_EQ(router.ask("POST", "/api/show", R"({"name":"three"})").status, 404);
  EXPECT_EQ(router.ask("GET", "/v1/responses/resp_1").status, 404);
  EXPECT_EQ(router.ask("POST", "/models/load", "{}").status, 400);
  EXPECT_EQ(router.ask("POST", "/models/load", R"({"model":"three"})").status, 404);
  EXPECT_TRUE(pids_in(pids.path).empty());  // none of them started anything
  EXPECT_EQ(router.ask("POST", "/v1/completions", R"({"model":"\u006fne","keep_alive":"abc"})").status,
            200);  // no field there
}

TEST(LocalEngines, WhatGoesOnFromAnotherModelsResponseLeavesThatWhereItIs) {
  Backend one("one"), two("two");
  one.more = R"(,"id":"resp_1")";
  const Router router({model("one", listener(one.port())), model("two", listener(two.port()))});
  EXPECT_EQ(router.ask("POST", "/v1/responses", R"({"model":"one"})").status, 200);
  const HttpResponse other = router.ask("POST", "/v1/responses", R"({"model":"two","previous_response_id":"resp_1"})");
  EXPECT_EQ(*other.header("x-quire-worker"), "two");
  EXPECT_EQ(*router.ask("GET", "/v1/responses/resp_1").header("x-quire-worker"), "one");
}

TEST(LocalEngines, TheKeyOfWorkersIsNotSentToThem) {
  Backend one("one");
  const Router router({model("one", listener(one.port()))}, {}, {}, "of-workers");
  EXPECT_EQ(router.complete("one").status, 200);  // so it was asked for its health
  EXPECT_EQ(one.n_keys, 0);
}

TEST(LocalEngines, ItGoesWhenItsTimeIsOverOrWhenItIsAskedTo) {
  Backend one("one");
  const TempFile pids;
  const Router router({model("one", listener(one.port(), pids.path))}, {.keep_alive_ms = 100});
  EXPECT_EQ(router.ask("POST", "/v1/completions", "{}").status, 200);  // there is only one
  EXPECT_TRUE(eventually([&] { return router.is("one", "unloaded") && is_gone(pids_in(pids.path).at(0)); }));
  EXPECT_EQ(router.ask("POST", "/api/generate", R"({"model":"one","prompt":"x","keep_alive":-1})").status, 200);
  EXPECT_NE(router.ask("GET", "/api/ps").body.find("\"expires_at\":\"9999-12-31T23:59:59Z\""), std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(router.is("one", "loaded"));
  const HttpResponse gone = router.ask("POST", "/api/generate", R"({"model":"one","keep_alive":0})");
  EXPECT_NE(gone.body.find("\"done_reason\":\"unload\""), std::string::npos) << gone.body;
  EXPECT_TRUE(eventually([&] { return router.is("one", "unloaded"); }));
  EXPECT_EQ(one.n_asked, 2);
  EXPECT_EQ(router.ask("POST", "/models/load", R"({"model":"one"})").body, "{\"success\":true}");
  EXPECT_TRUE(eventually([&] { return router.is("one", "loaded"); }));
  EXPECT_EQ(router.ask("POST", "/models/unload", R"({"model":"one"})").body, "{\"success\":true}");
  EXPECT_TRUE(eventually([&] { return router.is("one", "unloaded"); }));
}

TEST(LocalEngines, OneThatCannotStartSaysWhyAndHarmsNobody) {
  Backend one("one");
  LocalModel broken = model(
      "broken", script("echo first >&2; echo 'quire: /secret/m.gguf: bad magic, as /secret/m-2.gguf' >&2; exit 1"));
  broken.path = "/secret/m.gguf";
  LocalModel absent = model("absent", {"/no/such/program", {"x"}, {}, ""});
  LocalModel late = model("late", script("exec sleep 1000"));
  RouteLimits limits;
  limits.model_start_ms = 200;
  limits.eject_ms = 400;
  const Router router({broken, absent, late, model("one", listener(one.port()))}, {}, limits);
  const HttpResponse why = router.complete("broken");
  EXPECT_EQ(why.status, 503);
  EXPECT_NE(why.body.find(
                "the model 'broken' cannot be used now: it ended (exit code 1): quire: broken: bad magic, as m-2.gguf"),
            std::string::npos)
      << why.body;
  ASSERT_NE(why.header("retry-after"), nullptr);
  EXPECT_EQ(router.complete("one").status, 200);
  EXPECT_NE(router.complete("absent").body.find("No such file or directory"), std::string::npos);
  EXPECT_NE(router.complete("late").body.find("200 ms (model_start_ms)"), std::string::npos);
  EXPECT_NE(router.ask("GET", "/models").body.find("\"failed\":true"), std::string::npos);
  EXPECT_EQ(router.complete("one").status, 200);
}

TEST(LocalEngines, WhereMemoryIsShortOthersEndFirst) {
  Backend one("one"), two("two");
  const TempFile pids;
  // The second finds room only where the first is gone.
  LocalModel large = model("two", script("if kill -0 $(cat " + pids.path +
                                         "); then echo 'quire: it does not fit: needs 2, has 1' >&2; exit 1; fi; "
                                         "echo listening on http://127.0.0.1:" +
                                         std::to_string(two.port()) + "; exec sleep 1000"));
  large.no_room = "does not fit";
  const Router router({model("one", listener(one.port(), pids.path)), large});
  EXPECT_EQ(router.complete("one").status, 200);
  const HttpResponse answer = router.complete("two");
  EXPECT_EQ(answer.body, "{\"by\":\"two\"}");
  EXPECT_TRUE(router.is("one", "unloaded"));
}

TEST(LocalEngines, OneThatDiesIsStartedAgainByTheNextRequest) {
  Backend one("one");
  const TempFile pids;
  const Router router({model("one", listener(one.port(), pids.path))});
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(router.complete("one").status, 200);
    ASSERT_EQ(pids_in(pids.path).size(), static_cast<size_t>(i));
    ::kill(pids_in(pids.path).back(), SIGKILL);
    EXPECT_TRUE(eventually([&] { return router.is("one", "unloaded"); }));
  }
}

TEST(LocalEngines, TwoTakeTurnsWhereThereIsRoomForOneAndNoRequestIsLost) {
  Backend one("one"), two("two");
  one.delay_ms = two.delay_ms = 5;
  const TempFile pids;
  const Router router({model("one", listener(one.port(), pids.path)), model("two", listener(two.port(), pids.path))},
                      {.n_engines = 1});
  std::atomic<int> n_good{0}, n_most{0};
  std::atomic<bool> done{false};
  std::thread watch([&] {
    while (!done) {
      const std::string ps = router.ask("GET", "/api/ps").body;
      int n = 0;
      for (size_t at = ps.find("\"digest\""); at != std::string::npos; at = ps.find("\"digest\"", at + 1)) ++n;
      n_most = std::max(n_most.load(), n);
    }
  });
  std::vector<std::thread> clients;
  for (int c = 0; c < 6; ++c)
    clients.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) {
        const std::string name = (c + i / 3) % 2 == 0 ? "one" : "two";
        const HttpResponse answer = router.complete(name);
        EXPECT_EQ(answer.status, 200) << answer.body;
        if (answer.body == "{\"by\":\"" + name + "\"}") ++n_good;
      }
    });
  for (std::thread& client : clients) client.join();
  done = true;
  watch.join();
  EXPECT_EQ(n_good, 60);
  EXPECT_EQ(n_most, 1);
  EXPECT_GE(pids_in(pids.path).size(), 2U);
}

TEST(LocalEngines, AClientThatLeavesWhileItStartsIsForgotten) {
  Backend one("one");
  const TempFile pids;
  const Router router({model(
      "one",
      script("echo $$ > " + pids.path + "; while [ ! -e " + pids.path + ".go ]; do sleep 0.02; done; rm " + pids.path +
             ".go; echo listening on http://127.0.0.1:" + std::to_string(one.port()) + "; exec sleep 1000"))});
  RawClient client(router.router->port());
  const std::string body = R"({"model":"one"})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_TRUE(eventually([&] { return router.is("one", "loading") && !pids_in(pids.path).empty(); }));
  client.close();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::ofstream(pids.path + ".go") << "1";
  EXPECT_TRUE(eventually([&] { return router.is("one", "loaded"); }));
  EXPECT_EQ(one.n_asked, 0);
}

TEST(LocalEngines, StoppingWaitsForAnAnswerThenEndsTheEngine) {
  Backend one("one");
  one.delay_ms = 300;
  const TempFile pids;
  const Router router({model("one", listener(one.port(), pids.path))});
  std::string body;
  std::thread client([&] { body = router.complete("one").body; });
  EXPECT_TRUE(eventually([&] { return one.n_asked == 1; }));
  router.router->stop(kPatienceMs);
  client.join();
  EXPECT_EQ(body, "{\"by\":\"one\"}");
  EXPECT_TRUE(is_gone(pids_in(pids.path).at(0)));
}

}  // namespace
}  // namespace quire
