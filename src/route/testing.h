// For tests of this room: servers that stand for workers, and a whole router before them.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/client.h"
#include "http/testing.h"
#include "route/run.h"

namespace quire {

// A worker that answers GET with `said` and POST with `answer`.
struct FakeWorker {
  explicit FakeWorker(Verdict::Answer answer) : FakeWorker("{}", std::move(answer)) {}
  FakeWorker(std::string said, Verdict::Answer answer)
      : handler([said = std::move(said), answer = std::move(answer)](HttpRequest&& request, ReplyPtr reply) {
          if (request.method == "GET")
            reply->send(200, {}, said);
          else
            answer(std::move(request), std::move(reply));
        }) {
    ServerOptions options;
    options.limits.linger_ms = 20;
    server = std::move(*Server::start(options, handler));
  }
  FunctionHandler handler;
  std::unique_ptr<Server> server;
};

// How often `text` stands in what a router says of its workers.
inline int count_in_workers(const RouteServer& router, std::string_view text) {
  const std::string body = HttpClient(ClientOptions{.port = router.port()})
                               .request({"GET", "/workers", {{"Authorization", "Bearer k"}}, ""})
                               ->body;
  int n = 0;
  for (size_t at = body.find(text); at != std::string::npos; at = body.find(text, at + 1)) ++n;
  return n;
}

struct TestRouter {
  explicit TestRouter(std::initializer_list<const FakeWorker*> workers,
                      const RouteLimits& limits = {},
                      std::vector<WorkerSpec> more = {},
                      std::vector<ApiKey> keys = {}) {
    RouteOptions options;
    options.port = 0;
    options.limits = limits;
    options.keys = std::move(keys);
    options.http.send_buffer_bytes = 64 << 10;
    for (const FakeWorker* worker : workers) options.workers.push_back({{"127.0.0.1", worker->server->port()}, ""});
    options.workers.insert(options.workers.end(), more.begin(), more.end());
    const auto n = static_cast<int>(options.workers.size());
    router = std::move(*start_router(options, metrics));
    client = std::make_unique<HttpClient>(ClientOptions{.port = router->port()});
    EXPECT_TRUE(eventually([&] { return count("\"usable\":true") == n; }));
  }
  HttpResponse ask(std::string method, std::string target, std::string body = "", HttpHeaders more = {}) {
    more.push_back({"Content-Type", "application/json"});
    auto response = client->request({std::move(method), std::move(target), std::move(more), std::move(body)});
    EXPECT_TRUE(response) << response.error().message;
    return response ? *response : HttpResponse{};
  }
  HttpResponse post(std::string body) { return ask("POST", "/v1/completions", std::move(body)); }
  int count(std::string_view text) { return count_in_workers(*router, text); }
  bool nothing_charged(int n_workers) {
    return eventually([&] { return count("\"load_tokens\":0,\"requests\":0") == n_workers; });
  }
  Metrics metrics;
  std::unique_ptr<RouteServer> router;
  std::unique_ptr<HttpClient> client;
};

inline std::string post_bytes(std::string_view body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace quire
