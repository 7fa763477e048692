// How much an io thread does for others before a request that comes last has its turn, over real sockets: the thread is
// held until everything has come, and what it then does is counted, in requests and bytes. No clock.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "http/testing.h"

namespace quire {
namespace {

constexpr int kCrowd = 30;
constexpr int64_t kBytesOfATurn = 16 << 10, kRequestsOfATurn = 4;

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n"; }

class ServerTurns : public testing::Test {
 protected:
  ServerTurns() {
    ServerOptions o;
    o.metrics = &metrics_;
    o.limits.body_timeout_ms = kPatienceMs;
    auto started = Server::start(o, handler_);
    EXPECT_TRUE(started);
    server_ = std::move(*started);
  }
  ~ServerTurns() override { server_->stop(0); }

  // Connections from another address, and that of who comes last.
  void connect(const char* crowd_from) {
    for (int i = 0; i < kCrowd; ++i) crowd_.push_back(std::make_unique<RawClient>(server_->port(), 0, crowd_from));
    last_ = std::make_unique<RawClient>(server_->port());
    ASSERT_TRUE(eventually([&] { return server_->n_connections() == kCrowd + 1; }));
  }
  // Everybody speaks while the thread is held; then it goes on. What it did before /last.
  void all_at_once(const std::string& crowd_says) {
    RawClient holder(server_->port());
    holder.send(get("/hold"));
    held_.get_future().wait();
    for (const auto& client : crowd_) ASSERT_GT(client->send_what_fits(crowd_says), 0U);
    last_->send(get("/last"));
    n_requests_ = 0;
    bytes_at_hold_ = bytes_in();
    go_on_.set_value();
    ASSERT_TRUE(last_->read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  }
  int64_t bytes_in() { return static_cast<int64_t>(metrics_.counter("quire_http_received_bytes_total", "").value()); }

  Metrics metrics_;
  std::promise<void> held_, go_on_;
  std::atomic<int64_t> n_requests_{0}, bytes_at_hold_{0}, requests_before_{-1}, bytes_before_{-1};
  FunctionHandler handler_{[this](HttpRequest&& request, ReplyPtr reply) {
    if (request.path == "/hold") {
      held_.set_value();
      go_on_.get_future().wait();
    } else if (request.path == "/last") {
      requests_before_ = n_requests_.load();
      bytes_before_ = bytes_in() - bytes_at_hold_;
    } else {
      ++n_requests_;
    }
    reply->send(200, {}, "");
  }};
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<RawClient>> crowd_;
  std::unique_ptr<RawClient> last_;
};

std::string pipeline(int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += get("/crowd");
  return out;
}

std::string one_byte_chunks(int n) {
  std::string out = "POST /crowd HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < n; ++i) out += "1;x=y\r\n1\r\n";
  return out;
}

TEST_F(ServerTurns, PipelinesOfAnotherAddressAreWaitedForOneTurn) {
  connect("127.0.2.1");
  all_at_once(pipeline(200));
  EXPECT_GE(requests_before_, 0);
  EXPECT_LE(requests_before_, 2 * kRequestsOfATurn) << "of " << 200 * kCrowd;
}

TEST_F(ServerTurns, BodiesOfAnotherAddressAreWaitedForOneTurn) {
  connect("127.0.2.1");
  all_at_once(one_byte_chunks(20'000));
  EXPECT_LE(bytes_before_, 3 * kBytesOfATurn);
}

// A turn of those who have more to do comes between any two of those who are new.
TEST_F(ServerTurns, OfOneAddressEachConnectionIsWaitedForTwoTurns) {
  connect("127.0.0.1");
  all_at_once(pipeline(200));
  EXPECT_LE(requests_before_, 2 * (kCrowd + 1) * kRequestsOfATurn);
}

}  // namespace
}  // namespace quire
