#include "base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

namespace quire {
namespace {

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
std::atomic<const char*> unfinished{nullptr};  // the path, for the handler

void remove_and_end(int signal) {  // async-signal-safe
  if (const char* path = unfinished.load()) ::unlink(path);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void replace_action(int signal, void (*from)(int), void (*to)(int)) {
  struct sigaction now = {};
  ::sigaction(signal, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != from) return;
  ::signal(signal, to);
}

}  // namespace

void settle_process() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);  // the lowest free number: this one
  }
  ::signal(SIGXFSZ, SIG_IGN);
}

void outlive_readers() { ::signal(SIGPIPE, SIG_IGN); }

RemoveOnSignal::RemoveOnSignal(std::string path) : path_(std::move(path)) {
  const char* none = nullptr;
  is_first_ = unfinished.compare_exchange_strong(none, path_.c_str());
  if (!is_first_) return;
  for (const int signal : kEnding) replace_action(signal, SIG_DFL, remove_and_end);
}

RemoveOnSignal::~RemoveOnSignal() {
  if (!is_first_) return;
  for (const int signal : kEnding) replace_action(signal, remove_and_end, SIG_DFL);
  unfinished = nullptr;
}

}  // namespace quire
