// Looking up hosts while the system takes its time.
#include "http/host_lookup.h"

#include <gtest/gtest.h>

#include "http/resolver_testing.h"
#include "http/testing.h"
#include "http/upstream.h"

namespace quire {
namespace {

class Lookups : public testing::Test {
 protected:
  void SetUp() override { SlowResolver::answers = false; }
  void TearDown() override {
    SlowResolver::answers = true;
    EXPECT_TRUE(eventually([] { return SlowResolver::n_inside.load() == 0; }));
  }
  static void wait_until_asked(int before) {
    ASSERT_TRUE(eventually([&] { return SlowResolver::n_asked.load() > before; }));
  }
};

TEST_F(Lookups, WhoAsksForTheSameSharesTheAnswerAndNumbersNeedNone) {
  HostLookup lookup;
  std::atomic<int> n_told{0}, n_numbers{0};
  const int before = SlowResolver::n_asked;
  for (int i = 0; i < 3; ++i)
    lookup.find("slow.test", 80, [&](const std::vector<HostAddress>& found, const std::string& error) {
      EXPECT_EQ(found.size(), 1U) << error;
      ++n_told;
    });
  lookup.find("::1", 80, [&](const std::vector<HostAddress>& found, const std::string&) {
    n_numbers += found.size() == 1 && found[0].bytes.ss_family == AF_INET6;
  });
  EXPECT_EQ(n_numbers.load(), 1);
  wait_until_asked(before);
  EXPECT_EQ(n_told.load(), 0);
  SlowResolver::answers = true;
  EXPECT_TRUE(eventually([&] { return n_told.load() == 3; }));
  EXPECT_EQ(SlowResolver::n_asked.load(), before + 1);
  std::atomic<bool> failed{false};
  lookup.find("no-such-host.invalid", 80, [&](const std::vector<HostAddress>& found, const std::string& error) {
    failed = found.empty() && !error.empty();
  });
  EXPECT_TRUE(eventually([&] { return failed.load(); }));
}

TEST_F(Lookups, WhoGoesIsNotHeldUpAndHearsNothing) {
  std::atomic<int> n_told{0};
  const int64_t start = test_now_ms();
  {
    HostLookup lookup;
    const int before = SlowResolver::n_asked;
    for (const int port : {1, 2})
      lookup.find("slow.test", port, [&](const std::vector<HostAddress>&, const std::string&) { ++n_told; });
    wait_until_asked(before);
  }
  EXPECT_LT(test_now_ms() - start, 2'000);
  SlowResolver::answers = true;
  EXPECT_TRUE(eventually([] { return SlowResolver::n_inside.load() == 0; }));
  EXPECT_EQ(n_told.load(), 0);
}

class Silent final : public UpstreamEvents {
 public:
  void on_head(UpstreamHead&&) override {}
  bool on_body(std::string_view) override { return true; }
  void on_end(const UpstreamError*) override {}
};

TEST_F(Lookups, AServerStopsWhileAHostIsLookedUp) {
  FunctionHandler nobody([](HttpRequest&&, const ReplyPtr& reply) { reply->send(404, {}, ""); });
  const UpstreamLimits limits;
  auto server = std::move(*Server::start({}, nobody));
  const int before = SlowResolver::n_asked;
  server->post([&] {
    UpstreamRequest request;
    request.to = {"slow.test", 80};
    ask_upstream(request, limits, std::make_shared<Silent>());
  });
  wait_until_asked(before);
  const int64_t start = test_now_ms();
  server = nullptr;
  EXPECT_LT(test_now_ms() - start, 2'000);
}

}  // namespace
}  // namespace quire
