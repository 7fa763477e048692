// A client of which one request may fail: its connection is its own, known by its port before it is made, and it reads
// whatever comes until the end.
#pragma once
#include <arpa/inet.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "http/faults_testing.h"
#include "http/testing.h"

namespace quire {

// What a client got of an answer.
struct Got {
  int status = 0;          // 0: not even a head
  std::string head, body;  // of the body what came, without the marks of chunks
  bool whole = false;      // up to the end that its head promises
  bool hangs = false;      // neither went on nor ended, though nothing failed any more
};

// Takes the chunks of `bytes` apart; whether the last one is there.
inline bool join_chunks(std::string_view bytes, std::string& out) {
  while (true) {
    const size_t line = bytes.find("\r\n");
    if (line == std::string_view::npos) return false;
    const size_t n = std::strtoul(std::string(bytes.substr(0, line)).c_str(), nullptr, 16);
    bytes.remove_prefix(line + 2);
    if (n == 0) return bytes == "\r\n";
    out += bytes.substr(0, n);
    if (bytes.size() < n + 2) return false;
    bytes.remove_prefix(n + 2);
  }
}

inline Got read_answer(std::string_view bytes) {
  Got out;
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos || !bytes.starts_with("HTTP/1.1 ")) return out;
  out.status = std::atoi(std::string(bytes.substr(9, 3)).c_str());
  out.head = bytes.substr(0, end + 2);
  bytes.remove_prefix(end + 4);
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  if (const size_t at = out.head.find(kLength); at != std::string::npos) {
    out.body = bytes;
    out.whole = bytes.size() == std::strtoul(out.head.c_str() + at + kLength.size(), nullptr, 10);
  } else if (out.status == 204) {
    out.whole = bytes.empty();
  } else {
    out.whole = join_chunks(bytes, out.body);
  }
  return out;
}

// A socket whose port is known before it connects.
class VictimSocket {
 public:
  VictimSocket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = address(0);
    socklen_t length = sizeof own;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&own), length);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length);
    port_ = ntohs(own.sin_port);
  }
  VictimSocket(const VictimSocket&) = delete;
  VictimSocket& operator=(const VictimSocket&) = delete;
  ~VictimSocket() { ::close(fd_); }

  int port() const { return port_; }
  void send(int port, std::string_view bytes) const {
    const sockaddr_in to = address(port);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return;
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  enum class Came : uint8_t { some, end, nothing };
  Came read(std::string& into, int timeout_ms) const {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, timeout_ms) != 1) return Came::nothing;
    char part[16 << 10];
    const ssize_t n = ::recv(fd_, part, sizeof part, 0);
    if (n <= 0) return Came::end;
    into.append(part, static_cast<size_t>(n));
    return Came::some;
  }
  void reset() const {  // closes with RST
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }

 private:
  static sockaddr_in address(int port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &out.sin_addr);
    return out;
  }
  int fd_, port_ = 0;
};

// Sends `request` on a connection of its own to `port` and reads to the end. `arm` is called when its own port is known
// and nothing is sent yet, `disarm` once it is over, or where something failed and nothing came for a while.
template <class Arm, class Disarm>
Got ask_once(int port, std::string_view request, const Arm& arm, const Disarm& disarm) {
  constexpr int kSilentMs = 1000;
  const auto waits = [] { return !allocation_fault.hit() && !socket_fault.hit(); };
  const VictimSocket socket;
  fault_peer_port = socket.port();
  arm();
  socket.send(port, request);
  std::string bytes;
  VictimSocket::Came came = VictimSocket::Came::some;
  for (int ms = 0;
       came == VictimSocket::Came::some || (came == VictimSocket::Came::nothing && waits() && ms < kPatienceMs);
       ms += came == VictimSocket::Came::nothing ? kSilentMs : 0) {
    came = socket.read(bytes, kSilentMs);
  }
  disarm();
  if (came == VictimSocket::Came::nothing) came = VictimSocket::Came::some;
  while (came == VictimSocket::Came::some) came = socket.read(bytes, kPatienceMs);
  Got out = read_answer(bytes);
  out.hangs = came == VictimSocket::Came::nothing;
  return out;
}

}  // namespace quire
