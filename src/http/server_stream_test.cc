// Long streams, many of them, and clients that leave or do not read. The engine's part is played by a thread that
// notifies and flushes once per step, as the real one does.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>

#include "base/metrics.h"
#include "base/rng.h"
#include "http/client.h"
#include "http/testing.h"

namespace quire {
namespace {

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

// Collects how replies end.
class Ends {
 public:
  void watch(Reply& reply) {
    reply.on_close([this](CloseReason reason) {
      std::lock_guard lock(mu_);
      ++counts_[reason];
    });
  }
  int count(CloseReason reason) {
    std::lock_guard lock(mu_);
    return counts_[reason];
  }
  int total() {
    std::lock_guard lock(mu_);
    int n = 0;
    for (const auto& entry : counts_) n += entry.second;
    return n;
  }

 private:
  std::mutex mu_;
  std::map<CloseReason, int> counts_;
};

// Keeps every reply it is given, as an engine would.
class ServerStream : public testing::Test {
 protected:
  void open(const HttpLimits& limits = {}, int n_io_threads = 1) {
    ServerOptions o;
    o.limits = limits;
    o.n_io_threads = n_io_threads;
    o.metrics = &metrics_;
    auto started = Server::start(o, handler_);
    ASSERT_TRUE(started);
    server_ = std::move(*started);
  }
  ReplyPtr wait_reply() {
    ReplyPtr out;
    EXPECT_TRUE(eventually([&] {
      std::lock_guard lock(mu_);
      if (replies_.empty()) return false;
      out = std::move(replies_.back());
      replies_.pop_back();
      return true;
    }));
    return out;
  }
  RawClient client() { return RawClient(server_->port()); }

  double n_delivered() const {
    const std::string text = metrics_.expose();
    const std::string name = "quire_http_delivery_seconds_count ";
    return std::stod(text.substr(text.find(name) + name.size()));
  }

  Metrics metrics_;
  Ends ends_;
  std::mutex mu_;
  std::vector<ReplyPtr> replies_;
  FunctionHandler handler_{[this](HttpRequest&&, ReplyPtr reply) {
    ends_.watch(*reply);
    std::lock_guard lock(mu_);
    replies_.push_back(std::move(reply));
  }};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerStream, DisconnectsAreNoticedWhileNothingIsWritten) {
  open();
  const std::function<void(RawClient&)> ways[] = {[](RawClient& c) { c.close(); }, [](RawClient& c) { c.half_close(); },
                                                  [](RawClient& c) { c.reset(); }};
  int n = 0;
  for (const bool head_sent : {false, true})
    for (const auto& leave : ways) {
      RawClient c = client();
      c.send(kGet);
      const ReplyPtr reply = wait_reply();
      ASSERT_NE(reply, nullptr);
      if (head_sent) {
        reply->start_stream(200, {});
        server_->flush();
        EXPECT_NE(c.read_some(), "");
      }
      leave(c);
      ASSERT_TRUE(eventually([&] { return ends_.count(CloseReason::client_gone) == n + 1; }));
      EXPECT_TRUE(reply->closed());
      EXPECT_FALSE(reply->write("x"));
      ++n;
    }
}

TEST_F(ServerStream, ADisconnectBehindPipelinedBytesIsNoticed) {
  HttpLimits l;
  l.idle_timeout_ms = 100;  // makes the tick short; a reply under way is not idle
  open(l);
  RawClient c = client();
  c.send(kGet);
  const ReplyPtr reply = wait_reply();
  c.send(std::string(100'000, 'x'));  // more than the server reads ahead
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(reply->closed());
  c.close();
  EXPECT_TRUE(eventually([&] { return ends_.count(CloseReason::client_gone) == 1; }));
}

TEST_F(ServerStream, AnAbortedStreamIsVisiblyIncomplete) {
  open();
  for (const char* version : {"1.1", "1.0"}) {
    RawClient c = client();
    c.send("GET / HTTP/" + std::string(version) + "\r\nHost: h\r\n\r\n");
    const ReplyPtr reply = wait_reply();
    reply->start_stream(200, {});
    reply->write("part");
    server_->flush();
    EXPECT_NE(c.read_until("part").find("200"), std::string::npos);
    reply->abort();
    char byte;
    EXPECT_TRUE(eventually([&] { return reply->closed(); }));
    EXPECT_EQ(::recv(c.fd(), &byte, 1, 0), -1);  // a reset, not an end
    EXPECT_EQ(errno, ECONNRESET);
  }
  EXPECT_EQ(ends_.count(CloseReason::aborted), 2);
}

TEST_F(ServerStream, WritesGoOutWithTheNextFlush) {
  open();
  RawClient c = client();
  c.send(kGet);
  const ReplyPtr reply = wait_reply();
  reply->start_stream(200, {});
  reply->write("one");
  reply->write("two");
  EXPECT_EQ(c.read_some(50), "");
  server_->flush();
  EXPECT_NE(c.read_until("two").find("6\r\nonetwo\r\n"), std::string::npos);  // one step, one chunk
  reply->end();
  reply->flush();
  EXPECT_EQ(c.read_until("0\r\n\r\n"), "0\r\n\r\n");
}

TEST_F(ServerStream, WhatAStepCausedIsTimedUntilTheKernelHasIt) {
  open();
  RawClient c = client();
  c.send(kGet);
  const ReplyPtr reply = wait_reply();
  ASSERT_NE(reply, nullptr);
  reply->start_stream(200, {});
  server_->flush();
  EXPECT_TRUE(eventually([&] { return n_delivered() == 1; }));
  server_->flush();  // nothing is dirty
  reply->write("event");
  server_->flush();
  EXPECT_TRUE(eventually([&] { return n_delivered() == 2; }));
  reply->end();
  server_->flush();
  EXPECT_TRUE(eventually([&] { return n_delivered() == 3; }));
}

TEST_F(ServerStream, AClientThatReadsNothingIsCutAfterTheStallTimeout) {
  HttpLimits l;
  l.out_bytes = 64 << 10;
  l.send_buffer_bytes = 32 << 10;
  l.stall_timeout_ms = 100;
  open(l);
  RawClient lazy(server_->port(), 4096), eager = client();
  lazy.send(kGet);
  const ReplyPtr stuck = wait_reply();
  eager.send(kGet);
  const ReplyPtr fine = wait_reply();
  stuck->start_stream(200, {});
  fine->start_stream(200, {});
  const std::string piece(1000, 'x');
  int64_t peak = 0;
  size_t received = 0, n_ticks = 0;
  for (; n_ticks < 2000 && !stuck->closed(); ++n_ticks) {
    for (int i = 0; i < 10; ++i) stuck->write(piece);
    peak = std::max(peak, stuck->unsent_bytes());
    EXPECT_TRUE(fine->write("tick;"));
    server_->flush();
    received += eager.read_some().size();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(stuck->closed());
  EXPECT_EQ(ends_.count(CloseReason::stalled), 1);
  EXPECT_GE(peak, l.out_bytes);
  EXPECT_LE(peak, l.out_bytes + 11'000);  // the cap, one write, and the chunk frames
  EXPECT_FALSE(fine->closed());
  EXPECT_GE(received + 5, 5 * n_ticks);  // the last may still be on its way
}

TEST_F(ServerStream, UnreadBytesBelowTheCapEndAtTheWriteTimeout) {
  HttpLimits l;
  l.send_buffer_bytes = 16 << 10;
  l.write_timeout_ms = 100;
  open(l);
  RawClient lazy(server_->port(), 4096);
  lazy.send(kGet);
  wait_reply()->send(200, {}, std::string(500'000, 'x'));
  EXPECT_TRUE(eventually([&] { return ends_.total() == 1; }));
  EXPECT_EQ(ends_.count(CloseReason::finished), 0);
}

// The producer form: a full buffer refuses, and the producer is called again when there is room. No byte is lost.
TEST_F(ServerStream, AProducerIsCalledAgainWhenTheBufferHasDrained) {
  HttpLimits l;
  l.out_bytes = 10'000;
  l.send_buffer_bytes = 16 << 10;
  open(l);
  RawClient slow(server_->port(), 8192);
  slow.send("GET / HTTP/1.0\r\n\r\n");
  const ReplyPtr reply = wait_reply();
  int next = 0;
  std::atomic<int> refused{0};
  constexpr int kPieces = 3000;
  reply->start_stream(200, {});
  reply->set_producer([&](Reply& r) {
    while (next < kPieces) {
      if (!r.write(std::string(200, static_cast<char>('a' + next % 26)))) {
        ++refused;
        return;
      }
      ++next;
    }
    r.end();
  });
  reply->flush();
  ASSERT_TRUE(eventually([&] { return refused > 0; }));
  std::string all = slow.read_to_end();
  all.erase(0, all.find("\r\n\r\n") + 4);
  ASSERT_EQ(all.size(), 200u * kPieces);
  for (int i = 0; i < kPieces; ++i) ASSERT_EQ(all[static_cast<size_t>(i) * 200], 'a' + i % 26);
  EXPECT_GT(refused, 1);
  EXPECT_TRUE(eventually([&] { return ends_.count(CloseReason::finished) == 1; }));
}

// 1000 streams, 40 steps, two io threads: every client gets every event, in order.
TEST_F(ServerStream, AThousandStreamsGetEveryEvent) {
  constexpr int kStreams = 1000, kSteps = 40;
  open({}, 2);
  std::vector<RawClient> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(client());
    ASSERT_TRUE(clients.back().connected());
    clients.back().send("GET / HTTP/1.0\r\n\r\n");
  }
  ASSERT_TRUE(eventually([&] {
    std::lock_guard lock(mu_);
    return replies_.size() == kStreams;
  }));
  std::vector<ReplyPtr> replies;
  {
    std::lock_guard lock(mu_);
    replies.swap(replies_);
  }
  std::vector<std::atomic<int>> made(kStreams);
  for (size_t s = 0; s < kStreams; ++s) {
    replies[s]->start_stream(200, sse_headers());
    replies[s]->set_producer([&made, s, sent = 0](Reply& r) mutable {
      for (const int n = made[s].load(); sent < n; ++sent) {
        std::string event;
        append_sse_data(event, std::to_string(sent));
        ASSERT_TRUE(r.write(event));
      }
      if (sent == kSteps) r.end();
    });
  }
  std::thread engine([&] {
    for (int step = 0; step < kSteps; ++step) {
      for (size_t s = 0; s < kStreams; ++s) {
        made[s].fetch_add(1);
        replies[s]->notify();
      }
      server_->flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  std::string want;
  for (int i = 0; i < kSteps; ++i) append_sse_data(want, std::to_string(i));
  for (RawClient& c : clients) {
    const std::string all = c.read_to_end();
    ASSERT_EQ(all.substr(all.find("\r\n\r\n") + 4), want);
  }
  engine.join();
  EXPECT_TRUE(eventually([&] { return ends_.count(CloseReason::finished) == kStreams; }));
}

TEST_F(ServerStream, ACancelStormLeavesNothingBehind) {
  open({}, 2);
  {
    client().send(kGet);
  }
  // No connection is also what there is before the first is accepted: wait for its request, then for its end.
  ASSERT_TRUE(eventually([&] {
    std::lock_guard lock(mu_);
    return replies_.size() == 1;
  }));
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  const int fds_before = count_fds();
  constexpr int kClients = 4000;
  Rng rng(5);
  std::atomic<bool> done{false};
  std::thread engine([&] {  // steps over whatever is there, dropping what is closed
    std::vector<ReplyPtr> running;
    while (!done || !running.empty()) {
      {
        std::lock_guard lock(mu_);
        for (auto& r : replies_) running.push_back(std::move(r));
        replies_.clear();
      }
      for (auto& r : running) {
        r->start_stream(200, {});
        r->write("event");
      }
      server_->flush();
      std::erase_if(running, [](const ReplyPtr& r) { return r->closed(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int i = 0; i < kClients; ++i) {
    RawClient c = client();
    ASSERT_TRUE(c.connected());
    c.send(kGet);
    const int64_t way = rng.between(0, 3);
    if (way == 0)
      c.reset();
    else if (way == 1)
      c.half_close();
    else if (way == 2)
      c.read_some();
  }
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  done = true;
  engine.join();
  EXPECT_TRUE(eventually([&] { return count_fds() == fds_before; })) << count_fds() << " after " << fds_before;
  EXPECT_EQ(ends_.count(CloseReason::finished), 0);
  EXPECT_GT(ends_.total(), kClients / 2);  // a reset may overtake its own request
  EXPECT_TRUE(replies_.empty());
}

}  // namespace
}  // namespace quire
