// A router before pods that come and go, by an API of Kubernetes that says over TLS what one said: lists, watches that
// end, break off or are too old, refusals.
#include "route/kube_discovery.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "http/tls_testing.h"
#include "route/testing.h"

namespace quire {
namespace {

// Answers lists by what there is, and holds watches open.
class FakeApi {
 public:
  FakeApi() : handler_([this](HttpRequest&& request, const ReplyPtr& reply) { answer(request, reply); }) {
    ServerOptions options;
    options.tls_certificate = certificate.certificate;
    options.tls_key = certificate.key;
    options.limits.linger_ms = 20;
    server_ = std::move(*Server::start(options, handler_));
  }
  int port() const { return server_->port(); }
  // What lists say from now on: the ready port of a pod at 127.0.0.1, or none.
  void have(const std::string& items) {
    const std::lock_guard lock(mu_);
    items_ = items;
  }
  void refuse(bool refuses) {
    const std::lock_guard lock(mu_);
    refuses_ = refuses;
  }
  void refuse_watches(bool refuses) {
    const std::lock_guard lock(mu_);
    refuses_watches_ = refuses;
  }
  // To the watch that is open now. False: there is none.
  bool say(const std::string& line, bool ends = false) {
    const std::lock_guard lock(mu_);
    if (watch_ == nullptr) return false;
    const ReplyPtr watch = ends ? std::exchange(watch_, nullptr) : watch_;
    if (!line.empty()) watch->write(line + "\n");
    if (ends) watch->end();
    watch->flush();
    return true;
  }
  int n_lists() const { return n_lists_; }
  int n_watches() const { return n_watches_; }
  std::string last_watch() {
    const std::lock_guard lock(mu_);
    return last_watch_;
  }

  TestCertificate certificate{"127.0.0.1", "kube"};

 private:
  void answer(const HttpRequest& request, const ReplyPtr& reply) {
    const std::lock_guard lock(mu_);
    const std::string* key = request.header("authorization");
    if (refuses_ || key == nullptr || *key != "Bearer of-the-pod")
      return static_cast<void>(reply->send(403, {}, R"({"kind":"Status","message":"endpointslices is forbidden"})"));
    if (request.target.find("watch=1") == std::string::npos) {
      ++n_lists_;
      return static_cast<void>(
          reply->send(200, {}, R"({"metadata":{"resourceVersion":"5"},"items":[)" + items_ + "]}"));
    }
    if (refuses_watches_) return static_cast<void>(reply->send(403, {}, R"({"message":"may not watch"})"));
    ++n_watches_;
    last_watch_ = request.target;
    reply->start_stream(200, {{"Content-Type", "application/json"}});
    reply->flush();
    watch_ = reply;
  }

  std::mutex mu_;
  std::string items_, last_watch_;
  bool refuses_ = false, refuses_watches_ = false;
  ReplyPtr watch_;
  std::atomic<int> n_lists_{0}, n_watches_{0};
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;  // last: its threads use the others
};

std::string pod(int port, bool ready = true) {
  return R"({"metadata":{"name":"s)" + std::to_string(port) +
         R"(","resourceVersion":"6"},"addressType":"IPv4","endpoints":[{"addresses":["127.0.0.1"],"conditions":{"ready":)" +
         (ready ? "true" : "false") + R"(}}],"ports":[{"name":"http","port":)" + std::to_string(port) + "}]}";
}

std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}";
}

class Kube : public testing::Test {
 protected:
  void SetUp() override {
    const std::string base = std::filesystem::temp_directory_path() / ("quire_kube_" + std::to_string(::getpid()));
    api_at_ = {{"127.0.0.1", api_.port(), "127.0.0.1"}, api_.certificate.certificate, base + ".token", base + ".space"};
    std::ofstream(api_at_.token_file) << "of-the-pod\n";
    std::ofstream(api_at_.space_file) << "models";
  }
  void TearDown() override {
    std::remove(api_at_.token_file.c_str());
    std::remove(api_at_.space_file.c_str());
  }
  Result<std::unique_ptr<RouteServer>> start() {
    RouteOptions options;
    options.port = 0;
    options.services = {*parse_kube_service("kubernetes://quire")};
    options.kube_api = api_at_;
    return start_router(options, metrics_);
  }
  static std::string workers(const RouteServer& router) {
    return HttpClient(ClientOptions{.port = router.port()}).request({"GET", "/workers", {}, ""})->body;
  }
  static bool has(const RouteServer& router, int port, bool there = true) {
    const std::string name = "\"127.0.0.1:" + std::to_string(port) + "\"";
    return eventually([&] { return (workers(router).find(name) != std::string::npos) == there; });
  }

  FakeApi api_;
  KubeApi api_at_;
  FakeWorker one_{[](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "{}"); }};
  FakeWorker two_{[](HttpRequest&&, const ReplyPtr& reply) { reply->send(200, {}, "{}"); }};
  Metrics metrics_;
};

TEST_F(Kube, PodsComeAndGoAsTheApiSays) {
  const int one = one_.server->port(), two = two_.server->port();
  api_.have(pod(one));
  const auto router = std::move(*start());
  EXPECT_TRUE(has(*router, one));
  EXPECT_TRUE(eventually([&] { return api_.say(event("ADDED", pod(two))); }));
  EXPECT_TRUE(has(*router, two));
  EXPECT_NE(api_.last_watch().find("/namespaces/models/endpointslices?"), std::string::npos);
  EXPECT_TRUE(eventually([&] {
    return HttpClient(ClientOptions{.port = router->port()}).request({"GET", "/ready", {}, ""})->status == 200;
  }));
  // One that is not ready leaves at once, and comes back.
  EXPECT_TRUE(api_.say(event("MODIFIED", pod(one, false))));
  EXPECT_TRUE(has(*router, one, false));
  EXPECT_TRUE(has(*router, two));
  EXPECT_TRUE(api_.say(event("MODIFIED", pod(one))));
  EXPECT_TRUE(has(*router, one));
  // A watch that ends goes on from its last version, and nothing is listed again.
  EXPECT_TRUE(api_.say("", true));
  EXPECT_TRUE(eventually([&] { return api_.n_watches() == 2; }));
  EXPECT_TRUE(api_.last_watch().ends_with("&resourceVersion=6"));
  EXPECT_EQ(api_.n_lists(), 1);
  // One that is too old: all is listed anew, and what was missed is found.
  api_.have(pod(two));
  EXPECT_TRUE(eventually([&] { return api_.say(event("ERROR", R"({"code":410,"message":"too old"})")); }));
  EXPECT_TRUE(has(*router, one, false));
  EXPECT_TRUE(has(*router, two));
  EXPECT_EQ(api_.n_lists(), 2);
}

TEST_F(Kube, WhileTheApiRefusesOrTalksNonsenseTheLastPodsStay) {
  const int one = one_.server->port();
  api_.have(pod(one));
  const auto router = std::move(*start());
  EXPECT_TRUE(eventually([&] { return api_.n_watches() == 1; }));
  api_.refuse(true);
  EXPECT_TRUE(api_.say("no event at all"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(has(*router, one));
  const int n = api_.n_lists();
  api_.refuse(false);
  EXPECT_TRUE(eventually([&] { return api_.n_lists() > n; }));
  EXPECT_TRUE(has(*router, one));
}

// The pods are known by the lists, which are asked for ever more seldom.
TEST_F(Kube, WhoMayListButNotWatchDoesNotAskWithoutEnd) {
  const int one = one_.server->port();
  api_.have(pod(one));
  api_.refuse_watches(true);
  const auto router = std::move(*start());
  EXPECT_TRUE(has(*router, one));
  std::this_thread::sleep_for(std::chrono::milliseconds(3'300));
  EXPECT_LE(api_.n_lists(), 4);  // after half a second, one, and two
  api_.refuse_watches(false);
  EXPECT_TRUE(eventually([&] { return api_.n_watches() == 1; }));
}

TEST_F(Kube, AnApiThatIsNotTheClustersIsNotBelieved) {
  const TestCertificate other("127.0.0.1", "other");
  api_at_.ca_file = other.certificate;
  api_.have(pod(one_.server->port()));
  const auto router = std::move(*start());
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_EQ(api_.n_lists(), 0);
  EXPECT_TRUE(has(*router, one_.server->port(), false));
}

TEST_F(Kube, FilesThatCannotBeReadAreNamed) {
  for (std::string KubeApi::* file : {&KubeApi::ca_file, &KubeApi::token_file, &KubeApi::space_file}) {
    const std::string right = std::exchange(api_at_.*file, "/nowhere/file");
    const auto router = start();
    ASSERT_FALSE(router);
    EXPECT_NE(router.error().message.find("/nowhere/file"), std::string::npos) << router.error().message;
    api_at_.*file = right;
  }
}

}  // namespace
}  // namespace quire
