// Many streams at once through a router: whether an event is lost, how late it comes, and how much of the router's
// memory a stream takes. Three processes, so that each has its own descriptors and the router's memory is its own: one
// of workers, whose streams could move (portions.h), the router, and one of clients.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/nanoseconds.h"
#include "http/client.h"
#include "http/testing.h"
#include "route/run.h"

namespace quire {
namespace {

constexpr int kWorkers = 4, kEventsPerSecond = 20'000, kSeconds = 10, kAtOnce = 64;
constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nx-quire-handover: t\r\n\r\n";
constexpr std::string_view kWell = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
constexpr std::string_view kChunksEnd = "0\r\n\r\n";

// Where a worker listens.
struct Door {
  Door() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    socklen_t length = sizeof address;
    QR_CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0, "no port of this machine's own");
    ::listen(fd.get(), 1024);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
  }
  Fd fd;
  int port = 0;
};

int64_t now_ns() { return SystemClock().now_ns(); }  // of the machine: equal in all three

struct Peer {
  int fd = -1;
  std::string read;
  int64_t n_events = 0;
};

// Sockets by descriptor, and those that have something to read.
class Peers {
 public:
  Peers() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Peers() { ::close(epoll_); }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  Peer& add(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
    if (static_cast<size_t>(fd) >= by_fd_.size()) by_fd_.resize(static_cast<size_t>(fd) + 1);
    return by_fd_[static_cast<size_t>(fd)] = {fd, {}, 0};
  }
  Peer& at(int fd) { return by_fd_[static_cast<size_t>(fd)]; }
  void close(Peer& peer) { ::close(std::exchange(peer.fd, -1)); }
  // Descriptors; after `wait_ms` at most.
  std::vector<int> ready(int wait_ms) {
    epoll_event events[256];
    const int n = ::epoll_wait(epoll_, events, 256, wait_ms);
    std::vector<int> out;
    out.reserve(256);
    for (int i = 0; i < n; ++i) out.push_back(events[i].data.fd);
    return out;
  }
  // False: its end has come.
  static bool take(Peer& peer) {
    char buffer[16 << 10];
    const ssize_t n = ::recv(peer.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    peer.read.append(buffer, static_cast<size_t>(n));
    return true;
  }

 private:
  int epoll_;
  std::vector<Peer> by_fd_;
};

// Answers each POST with a stream; when all n have come, says an event after the other, each of the next stream.
void serve_streams(const std::vector<Door>& doors, int n) {
  Peers peers;
  std::vector<int> streams;
  for (const Door& door : doors) peers.add(door.fd.get());
  const auto read = [&](Peer& peer) {
    if (!Peers::take(peer)) return peers.close(peer);
    if (!peer.read.ends_with("}") && !peer.read.starts_with("GET")) return;
    const bool streams_now = peer.read.starts_with("POST");
    say_to(peer.fd, std::string(streams_now ? kHead : kWell));
    peer.read.clear();
    if (streams_now)
      streams.push_back(peer.fd);
    else
      peers.close(peer);
  };
  const auto turn = [&](int wait_ms) {
    for (const int fd : peers.ready(wait_ms))
      if (std::ranges::find(doors, fd, [](const Door& door) { return door.fd.get(); }) != doors.end())
        peers.add(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
      else
        read(peers.at(fd));
  };
  while (std::ssize(streams) < n) turn(100);
  const int64_t begin = now_ns();
  for (int64_t said = 0; said < int64_t{kSeconds} * kEventsPerSecond; turn(1)) {
    const int64_t due = (now_ns() - begin) * kEventsPerSecond / kNsPerSecond;
    for (; said < std::min(due, int64_t{kSeconds} * kEventsPerSecond); ++said) {
      Peer& to = peers.at(streams[static_cast<size_t>(said % n)]);
      const std::string event = "data: {\"n\":" + std::to_string(to.n_events) + ",\"t\":" + std::to_string(now_ns()) +
                                "}\n\n: handover 12345 " + std::to_string(4 * to.n_events) + "\n\n";
      ++to.n_events;
      char size[16];
      const auto end = std::to_chars(size, size + sizeof size, event.size(), 16).ptr;
      say_to(to.fd, std::string(size, end) + "\r\n" + event + "\r\n");
    }
  }
  for (const int fd : streams) say_to(fd, std::string(kChunksEnd));
  while (true) turn(1000);  // until it is killed
}

void route(const std::vector<Door>& doors, int n, int port_pipe) {
  Metrics metrics;
  RouteOptions options;
  options.port = 0;
  options.http.n_connections = n + 100;
  options.http.n_connections_per_address = 0;
  for (const Door& door : doors) options.workers.push_back({{"127.0.0.1", door.port}, ""});
  const auto router = std::move(*start_router(options, metrics));
  const int port = router->port();
  if (::write(port_pipe, &port, sizeof port) == sizeof port) ::pause();  // until it is killed
}

int64_t kept_bytes(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// A process that ends with this object.
class Child {
 public:
  explicit Child(const std::function<void()>& run) : pid_(::fork()) {
    if (pid_ != 0) return;
    run();
    ::_exit(0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

struct Heard {
  int64_t n_events = 0, n_lost = 0, n_ended = 0, n_bytes = 0;
  std::vector<int64_t> late_ns;
};

// Events of a stream, as far as they are here; true at its end.
bool hear(Peer& peer, Heard& heard) {
  constexpr std::string_view kMark = "{\"n\":", kTime = ",\"t\":";
  size_t from = 0;
  for (size_t at = peer.read.find(kMark); at != std::string::npos; at = peer.read.find(kMark, from)) {
    const size_t time = peer.read.find(kTime, at), end = peer.read.find('}', at);
    if (end == std::string::npos) break;
    int64_t number = -1, said_ns = 0;
    std::from_chars(peer.read.data() + at + kMark.size(), peer.read.data() + time, number);
    std::from_chars(peer.read.data() + time + kTime.size(), peer.read.data() + end, said_ns);
    heard.n_lost += number - peer.n_events;
    peer.n_events = number + 1;
    ++heard.n_events;
    heard.late_ns.push_back(now_ns() - said_ns);
    from = end;
  }
  const bool ended = peer.read.ends_with(kChunksEnd);
  peer.read.erase(0, from);
  return ended;
}

// Opens n streams, a few at a time, and hears them to their ends.
Heard hear_streams(int port, int n, pid_t router, int64_t base_bytes) {
  Peers peers;
  Heard out;
  const std::string body = R"({"model":"m","prompt":"Once upon a time","stream":true,"max_tokens":64})";
  const std::string request =
      "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  std::vector<bool> answered;
  std::vector<RawClient> clients;
  int n_opened = 0, n_answered = 0;
  while (out.n_ended < n) {
    for (; n_opened < n && n_opened - n_answered < kAtOnce; ++n_opened) {
      clients.emplace_back(port);
      clients.back().send(request);
      peers.add(clients.back().fd());
    }
    const std::vector<int> ready = peers.ready(5000);
    if (ready.empty()) break;
    for (const int fd : ready) {
      Peer& peer = peers.at(fd);
      if (!Peers::take(peer)) return out;
      if (answered.size() <= static_cast<size_t>(fd)) answered.resize(static_cast<size_t>(fd) + 1);
      if (!answered[static_cast<size_t>(fd)]) {
        if (peer.read.find("\r\n\r\n") == std::string::npos) continue;
        answered[static_cast<size_t>(fd)] = true;
        ++n_answered;
      }
      out.n_ended += static_cast<int64_t>(hear(peer, out));
      if (out.n_events == int64_t{kSeconds} * kEventsPerSecond / 2) out.n_bytes = kept_bytes(router) - base_bytes;
    }
  }
  return out;
}

void streams(benchmark::State& state) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const int n = static_cast<int>(std::min<int64_t>(state.range(0), (static_cast<int64_t>(files.rlim_cur) - 200) / 2));
  while (state.KeepRunning()) {
    std::vector<Door> doors(kWorkers);
    int port_pipe[2];
    if (::pipe(port_pipe) != 0) return state.SkipWithError("no pipe");
    const Child workers([&] { serve_streams(doors, n); });
    const Child router([&] { route(doors, n, port_pipe[1]); });
    doors.clear();
    int port = 0;
    if (::read(port_pipe[0], &port, sizeof port) != sizeof port) return state.SkipWithError("no router");
    HttpClient probe({.port = port});
    eventually([&] { return probe.request({"GET", "/ready", {}, ""})->status == 200; });
    Heard heard = hear_streams(port, n, router.pid(), kept_bytes(router.pid()));
    if (heard.n_ended < n) return state.SkipWithError("a stream did not end");
    std::ranges::sort(heard.late_ns);
    const auto late_ms = [&](size_t percent) {
      return static_cast<double>(heard.late_ns[heard.late_ns.size() * percent / 100]) / static_cast<double>(kNsPerMs);
    };
    const int64_t n_said = int64_t{kSeconds} * kEventsPerSecond;
    state.counters["streams"] = n;
    state.counters["lost"] = static_cast<double>(n_said - heard.n_events);
    state.counters["p50_ms"] = late_ms(50);
    state.counters["p99_ms"] = late_ms(99);
    state.counters["KiB_each"] = static_cast<double>(heard.n_bytes) / n / 1024;
    ::close(port_pipe[0]);
    ::close(port_pipe[1]);
  }
}
BENCHMARK(streams)->Arg(1000)->Arg(10'000)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
}  // namespace quire
