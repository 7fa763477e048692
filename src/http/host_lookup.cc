#include "http/host_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/thread.h"

namespace quire {
namespace {

std::vector<HostAddress> ask_system(const std::string& host, int port, int flags, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  std::vector<HostAddress> out;
  if (rc != 0) {
    error = ::gai_strerror(rc);
    return out;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    if (one->ai_addrlen > sizeof(sockaddr_storage)) continue;
    std::memcpy(&out.emplace_back().bytes, one->ai_addr, one->ai_addrlen);
    out.back().n_bytes = one->ai_addrlen;
  }
  if (out.empty()) error = "no address of a kind that is known here";
  return out;
}

}  // namespace

std::string number_text(const HostAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const int family = address.bytes.ss_family;
  if (family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.bytes, sizeof v4);
    inet_ntop(family, &v4.sin_addr, text, sizeof text);
  } else if (family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address.bytes, sizeof v6);
    inet_ntop(family, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

struct HostLookup::State {
  using Place = std::pair<std::string, int>;
  std::mutex mu;  // guards what follows
  std::condition_variable more;
  std::map<Place, std::vector<Done>> asked;  // also what is being looked up
  bool ended = false, running = false;

  // The thread. Nobody's call is made once the owner has gone: `ended` is set under the lock that calls are made under.
  void run() {
    set_thread_name("quire-lookup");
    std::unique_lock lock(mu);
    while (true) {
      more.wait(lock, [&] { return ended || !asked.empty(); });
      if (ended) return;
      const Place place = asked.begin()->first;
      lock.unlock();
      std::string error;
      const std::vector<HostAddress> found = ask_system(place.first, place.second, 0, error);
      lock.lock();
      if (ended) return;
      const auto waited = asked.extract(place);
      for (const Done& done : waited.mapped()) done(found, error);
    }
  }
};

HostLookup::HostLookup() : state_(std::make_shared<State>()) {}

HostLookup::~HostLookup() {
  const std::lock_guard lock(state_->mu);
  state_->ended = true;
  state_->asked.clear();
  state_->more.notify_all();
}

void HostLookup::find(const std::string& host, int port, Done done) {
  std::string error;
  const std::vector<HostAddress> found = ask_system(host, port, AI_NUMERICHOST, error);
  if (!found.empty()) return done(found, "");
  const std::lock_guard lock(state_->mu);
  state_->asked[{host, port}].push_back(std::move(done));
  if (!state_->running) std::thread([state = state_] { state->run(); }).detach();
  state_->running = true;
  state_->more.notify_all();
}

}  // namespace quire
