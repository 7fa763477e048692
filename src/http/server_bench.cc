// Streams as an engine drives them: every 20 ms one event per stream, then one flush. Reported for each count of
// streams: delivery (from before the flush to the client's read; the client reads all sockets in a row on one thread,
// which is most of it), the io threads' CPU per event and as a share of one core, and what a step costs the engine
// thread.
//   http_bench --benchmark_filter=Streams
#include <benchmark/benchmark.h>
#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/cpu_clock.h"
#include "http/sse.h"
#include "http/testing.h"

namespace quire {
namespace {

constexpr int kSteps = 150, kStepMs = 20;
constexpr std::string_view kMark = "\"t\":";  // the time stamp in an event

int64_t thread_cpu_ns() { return ThreadCpuClock().now_ns(); }

int64_t now_ns() { return SystemClock().now_ns(); }

// About 150 bytes, as a chat chunk has.
void append_event(std::string& out, int64_t at_ns) {
  append_sse_data(out,
                  R"({"id":"chatcmpl-0123456789","object":"chat.completion.chunk","model":"m","choices":[{"index":0,)"
                  R"("delta":{"content":" token"}}],)" +
                      std::string(kMark) + std::to_string(at_ns) + "}");
}

// Reads every socket until all have ended; returns the delivery times.
std::vector<int64_t> read_all(std::vector<RawClient>& clients) {
  const int poller = epoll_create1(0);
  for (RawClient& c : clients) {
    epoll_event e{EPOLLIN, {.ptr = &c}};
    epoll_ctl(poller, EPOLL_CTL_ADD, c.fd(), &e);
  }
  std::vector<int64_t> delays;
  std::vector<epoll_event> ready(256);
  std::string buffer(1 << 16, '\0');
  for (size_t open = clients.size(); open > 0;) {
    const int n = epoll_wait(poller, ready.data(), static_cast<int>(ready.size()), 10'000);
    if (n <= 0) break;
    for (int i = 0; i < n; ++i) {
      auto& c = *static_cast<RawClient*>(ready[static_cast<size_t>(i)].data.ptr);
      const ssize_t got = ::recv(c.fd(), buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        c.close();
        --open;
        continue;
      }
      const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
      for (size_t at = bytes.find(kMark); at != std::string_view::npos; at = bytes.find(kMark, at + 1))
        delays.push_back(now_ns() - std::strtoll(bytes.data() + at + kMark.size(), nullptr, 10));
    }
  }
  ::close(poller);
  std::sort(delays.begin(), delays.end());
  return delays;
}

struct Load {
  explicit Load(int n_io_threads) {
    ServerOptions options;
    options.n_io_threads = n_io_threads;
    server = std::move(*Server::start(options, handler));
  }
  // CPU time of all io threads so far, asked of each by a task on it; `first` replies cover all threads.
  int64_t io_cpu_ns(int n_io_threads) {
    std::mutex cpu_mu;
    std::vector<std::pair<std::thread::id, int64_t>> seen;
    for (const ReplyPtr& reply : replies)
      reply->post([&] {
        std::lock_guard lock(cpu_mu);
        for (auto& entry : seen)
          if (entry.first == std::this_thread::get_id()) return;
        seen.emplace_back(std::this_thread::get_id(), thread_cpu_ns());
      });
    std::atomic<size_t> last{0};  // tasks of a thread run in order: behind the last one all are done
    for (const ReplyPtr& reply : replies) reply->post([&] { ++last; });
    while (last < replies.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    int64_t sum = 0;
    for (const auto& entry : seen) sum += entry.second;
    return static_cast<int>(seen.size()) == n_io_threads ? sum : 0;
  }

  std::mutex mu;
  std::vector<ReplyPtr> replies;
  FunctionHandler handler{[this](HttpRequest&&, ReplyPtr reply) {
    std::lock_guard lock(mu);
    replies.push_back(std::move(reply));
  }};
  std::unique_ptr<Server> server;
};

void Streams(benchmark::State& state) {
  const auto n = static_cast<size_t>(state.range(0));
  const int n_io_threads = static_cast<int>(state.range(1));
  for (auto _ : state) {
    Load load(n_io_threads);
    std::vector<RawClient> clients;
    for (size_t i = 0; i < n; ++i) {
      clients.emplace_back(load.server->port());
      clients.back().send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    }
    eventually([&] {
      std::lock_guard lock(load.mu);
      return load.replies.size() == n;
    });
    std::vector<std::atomic<int>> made(n);  // the per-request channel: here a count of events
    std::vector<int64_t> step_at(kSteps);   // written before the counts that refer to it
    for (size_t s = 0; s < n; ++s) {
      load.replies[s]->start_stream(200, sse_headers());
      load.replies[s]->set_producer([&, s, sent = 0](Reply& r) mutable {
        std::string events;
        for (const int until = made[s].load(std::memory_order_acquire); sent < until; ++sent)
          append_event(events, step_at[static_cast<size_t>(sent)]);
        if (!events.empty()) r.write(events);
        if (sent == kSteps) r.end();
      });
    }
    std::vector<int64_t> delays;
    std::thread reader([&] { delays = read_all(clients); });
    const int64_t cpu_before = load.io_cpu_ns(n_io_threads), begin = now_ns();
    int64_t engine_ns = 0;
    for (int step = 0; step < kSteps; ++step) {
      step_at[static_cast<size_t>(step)] = now_ns();
      const int64_t cpu = thread_cpu_ns();
      for (size_t s = 0; s < n; ++s) {
        made[s].fetch_add(1, std::memory_order_release);
        load.replies[s]->notify();
      }
      load.server->flush();
      engine_ns += thread_cpu_ns() - cpu;
      std::this_thread::sleep_until(std::chrono::steady_clock::time_point(
          std::chrono::nanoseconds(begin + int64_t{step + 1} * kStepMs * 1'000'000)));
    }
    const double wall = static_cast<double>(now_ns() - begin);
    const auto cpu = static_cast<double>(load.io_cpu_ns(n_io_threads) - cpu_before);
    reader.join();
    const auto at = [&](double q) {
      return delays.empty()
                 ? 0.0
                 : static_cast<double>(delays[static_cast<size_t>(q * static_cast<double>(delays.size() - 1))]) / 1e3;
    };
    state.counters["events"] = static_cast<double>(delays.size());
    state.counters["lost"] = static_cast<double>(n * kSteps) - static_cast<double>(delays.size());
    state.counters["p50_us"] = at(0.5);
    state.counters["p99_us"] = at(0.99);
    state.counters["max_us"] = at(1.0);
    state.counters["io_cpu_pct"] = 100 * cpu / wall;
    state.counters["io_us_per_event"] = cpu / 1e3 / static_cast<double>(n * kSteps);
    state.counters["engine_us_per_step"] = static_cast<double>(engine_ns) / 1e3 / kSteps;
  }
}
BENCHMARK(Streams)->Args({100, 1})->Args({1000, 1})->Args({1000, 2})->Args({4000, 1})->Iterations(1)->Unit(
    benchmark::kSecond);

// Plain JSON request and answer on one kept connection, sequentially: the whole round trip.
void RoundTrip(benchmark::State& state) {
  FunctionHandler handler([](HttpRequest&&, ReplyPtr reply) {
    reply->send(200, {{"Content-Type", "application/json"}}, R"({"status":"ok"})");
  });
  const auto server = std::move(*Server::start({}, handler));
  RawClient client(server->port());
  for (auto _ : state) {
    client.send("GET /health HTTP/1.1\r\nHost: h\r\n\r\n");
    if (client.read_until("\"ok\"}").empty()) state.SkipWithError("no answer");
  }
}
BENCHMARK(RoundTrip);

}  // namespace
}  // namespace quire
