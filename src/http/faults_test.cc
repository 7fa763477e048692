// The functions of the program that faults_testing.h replaces. A file of its own, so that the compiler sees no new
// beside its delete.
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "http/faults_testing.h"

namespace quire {

Fault allocation_fault, socket_fault;
std::atomic<int> socket_errno{0};

bool Fault::happens() {
  if (left_.load(std::memory_order_relaxed) == 0) return false;
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (std::strncmp(name, "quire-io", 8) != 0) return false;
  const int64_t left = left_.fetch_sub(1);
  if (left == 0) left_ = 0;  // disarmed meanwhile
  if (left != 1 && !(left < 0 && and_after_)) return false;
  hit_ = true;
  return true;
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
  if (quire::socket_fault.happens()) {
    if (quire::socket_errno != 0) return errno = quire::socket_errno, -1;
    n = std::min<size_t>(n, 1);
  }
  return syscall(SYS_recvfrom, fd, bytes, n, flags, nullptr, nullptr);
}
ssize_t send(int fd, const void* bytes, size_t n, int flags) {
  if (quire::socket_fault.happens()) {
    if (quire::socket_errno != 0) return errno = quire::socket_errno, -1;
    n = std::min<size_t>(n, 1);
  }
  return syscall(SYS_sendto, fd, bytes, n, flags, nullptr, 0);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (quire::socket_fault.happens()) {
    if (quire::socket_errno != 0) return errno = quire::socket_errno, -1;
    for (size_t i = 0; i < message->msg_iovlen; ++i)
      if (message->msg_iov[i].iov_len > 0) return send(fd, message->msg_iov[i].iov_base, 1, flags);
  }
  return syscall(SYS_sendmsg, fd, message, flags);
}
}
