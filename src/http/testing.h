// For tests and benches of this room: raw client sockets that can do what a proper client never does, and a handler
// made of a function. Blocking with a timeout; a failure shows as missing bytes.
#pragma once
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "http/server.h"

namespace quire {

inline int64_t test_now_ms() { return SystemClock().now_ns() / 1'000'000; }

// How long a test waits for what must come: passed only where something is broken, however busy the machine is.
inline constexpr int kPatienceMs = 30'000;

class RawClient {
 public:
  // `from`: one of this machine's own addresses.
  explicit RawClient(int port, int receive_buffer = 0, const char* from = "127.0.0.1") {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    ::bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own);
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  // What the kernel takes at once; how many bytes that was.
  size_t send_what_fits(std::string_view bytes) {
    size_t n_sent = 0;
    while (n_sent < bytes.size()) {
      const ssize_t n = ::send(fd_, bytes.data() + n_sent, bytes.size() - n_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) break;
      n_sent += static_cast<size_t>(n);
    }
    return n_sent;
  }
  int fd() const { return fd_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset() {  // closes with RST
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  // What is there; waits for the first byte. Empty: end, error or timeout.
  std::string read_some(int timeout_ms = kPatienceMs) {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, timeout_ms) != 1) {
      timed_out_ = true;
      return "";
    }
    std::string out(1 << 16, '\0');
    const ssize_t n = ::recv(fd_, out.data(), out.size(), 0);
    out.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return out;
  }
  // Until `marker` has come, or the end.
  std::string read_until(std::string_view marker, int timeout_ms = kPatienceMs) {
    std::string out;
    while (out.find(marker) == std::string::npos) {
      const std::string part = read_some(timeout_ms);
      if (part.empty()) break;
      out += part;
    }
    return out;
  }
  std::string read_to_end(int timeout_ms = kPatienceMs) { return read_until("\xff\xfenever", timeout_ms); }
  bool timed_out() const { return timed_out_; }

 private:
  int fd_ = -1;
  bool connected_ = false, timed_out_ = false;
};

// One socket that listens, for what no Server would do.
class RawListener {
 public:
  RawListener() {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    socklen_t length = sizeof address;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), length);
    ::listen(fd_, 16);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~RawListener() { ::close(fd_); }
  int port() const { return port_; }
  // Waits for a connection; −1: none came.
  int accept() const {
    pollfd p{fd_, POLLIN, 0};
    return ::poll(&p, 1, kPatienceMs) == 1 ? ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC) : -1;
  }

 private:
  int fd_ = -1, port_ = 0;
};

inline std::string read_from(int fd, std::string_view marker) {
  std::string out;
  char buffer[4096];
  while (out.find(marker) == std::string::npos) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, kPatienceMs) != 1) break;
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) break;
    out.append(buffer, static_cast<size_t>(n));
  }
  return out;
}

inline void say_to(int fd, std::string_view bytes) { ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

class FunctionHandler final : public Handler {
 public:
  using Function = Verdict::Answer;
  explicit FunctionHandler(Function fn) : fn_(std::move(fn)) {}
  Verdict judge(const HttpRequest&) override { return {fn_}; }

 private:
  Function fn_;
};

// Judges with a function.
class JudgingHandler final : public Handler {
 public:
  explicit JudgingHandler(std::function<Verdict(const HttpRequest&)> fn) : fn_(std::move(fn)) {}
  Verdict judge(const HttpRequest& head) override { return fn_(head); }

 private:
  std::function<Verdict(const HttpRequest&)> fn_;
};

inline int count_fds() {
  int n = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

// Whether `condition` holds within the time.
template <class F>
bool eventually(F condition, int timeout_ms = kPatienceMs) {
  const int64_t end = test_now_ms() + timeout_ms;
  while (!condition()) {
    if (test_now_ms() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace quire
