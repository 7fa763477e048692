#include "app/stop_signals.h"

#include <pthread.h>

#include <atomic>
#include <string>
#include <system_error>
#include <thread>

#include "base/log.h"

namespace quire {

sigset_t block_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);  // under nohup it stays without effect
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

void wait_for_stop_signal(const sigset_t& set) {
  int signal = 0;
  sigwait(&set, &signal);
}

void drain_until_signal(const sigset_t& set, const std::function<void(int64_t ms)>& stop, int64_t drain_ms) {
  log_info("draining: new requests are refused; a second signal stops at once");
  std::atomic<bool> done{false};
  const auto wait = [&] {
    const timespec tick{0, 100'000'000};
    while (!done) {
      if (sigtimedwait(&set, nullptr, &tick) > 0) {
        stop(0);
        return;
      }
    }
  };
  std::thread second;
  try {
    second = std::thread(wait);
  } catch (const std::system_error& error) {
    log_warn(std::string("a second signal will not be heard: ") + error.what());
  }
  stop(drain_ms);
  done = true;
  if (second.joinable()) second.join();
}

}  // namespace quire
