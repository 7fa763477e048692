// A resolver that takes its time: in the program that includes this, once, getaddrinfo() of "slow.test" answers after
// five seconds, or when it is told to. Everything else is asked of the system.
#pragma once
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace quire {

struct SlowResolver {
  static inline std::atomic<int> n_asked{0}, n_inside{0};
  static inline std::atomic<bool> answers{false};
};

}  // namespace quire

// Of the one program that includes this. NOLINTNEXTLINE(misc-definitions-in-headers)
extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** list) {
  using quire::SlowResolver;
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto kSystem = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool numbers_only = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (host == nullptr || std::strcmp(host, "slow.test") != 0 || numbers_only) return kSystem(host, port, hints, list);
  ++SlowResolver::n_inside;
  ++SlowResolver::n_asked;
  for (int i = 0; i < 5000 && !SlowResolver::answers; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int rc = kSystem("127.0.0.1", port, hints, list);
  --SlowResolver::n_inside;
  return rc;
}
