// The functions of a test program that faults_testing.h replaces. To be included by one file of it that has nothing
// else, so that the compiler sees no new beside its delete.
#pragma once
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string_view>

#include "http/faults_testing.h"

// NOLINTBEGIN(misc-definitions-in-headers): what replaces the library's may not be inline
namespace quire {

Fault allocation_fault, socket_fault;
std::atomic<int> socket_errno{0};
std::atomic<const char*> fault_threads{"quire-io"};
std::atomic<int> fault_peer_port{0};
thread_local int SpareFaults::n_ = 0;

namespace {

bool is_fault_thread() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  const std::string_view own(name);
  std::string_view all(fault_threads.load());
  while (!all.empty()) {
    const size_t end = std::min(all.find(' '), all.size());
    if (own.starts_with(all.substr(0, end))) return true;
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return false;
}

bool is_fault_peer(int socket) {
  const int wanted = fault_peer_port.load(std::memory_order_relaxed);
  sockaddr_in peer{};
  socklen_t length = sizeof peer;
  return wanted == 0 ||
         (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && ntohs(peer.sin_port) == wanted);
}

}  // namespace

bool Fault::happens() {
  if (left_.load(std::memory_order_relaxed) == 0 || SpareFaults::any() || !is_fault_thread()) return false;
  const int64_t left = left_.fetch_sub(1);
  if (left == 0) left_ = 0;  // disarmed meanwhile
  if (left != 1 && !(left < 0 && and_after_)) return false;
  hit_ = true;
  return true;
}

bool Fault::happens_on(int socket) {
  return left_.load(std::memory_order_relaxed) != 0 && is_fault_peer(socket) && happens();
}

}  // namespace quire

void* operator new(size_t n) {
  if (quire::allocation_fault.happens()) throw std::bad_alloc();
  if (void* p = std::malloc(n == 0 ? 1 : n)) return p;
  throw std::bad_alloc();
}
// As the library would: or where memory is checked this one's delete would meet another one's new.
void* operator new(size_t n, const std::nothrow_t& /*tag*/) noexcept {
  return quire::allocation_fault.happens() ? nullptr : std::malloc(n == 0 ? 1 : n);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

extern "C" {
ssize_t recv(int fd, void* bytes, size_t n, int flags) {
  if (quire::socket_fault.happens_on(fd)) {
    if (quire::socket_errno != 0) return errno = quire::socket_errno, -1;
    n = std::min<size_t>(n, 1);
  }
  return syscall(SYS_recvfrom, fd, bytes, n, flags, nullptr, nullptr);
}
ssize_t send(int fd, const void* bytes, size_t n, int flags) {
  if (quire::socket_fault.happens_on(fd)) {
    if (quire::socket_errno != 0) return errno = quire::socket_errno, -1;
    n = std::min<size_t>(n, 1);
  }
  return syscall(SYS_sendto, fd, bytes, n, flags, nullptr, 0);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (quire::socket_fault.happens_on(fd)) {
    if (quire::socket_errno != 0) return errno = quire::socket_errno, -1;
    for (size_t i = 0; i < message->msg_iovlen; ++i)
      if (message->msg_iov[i].iov_len > 0)
        return syscall(SYS_sendto, fd, message->msg_iov[i].iov_base, 1, flags, nullptr, 0);
  }
  return syscall(SYS_sendmsg, fd, message, flags);
}
}
// NOLINTEND(misc-definitions-in-headers)
