// The addresses of a host's name. The one idea: the system takes as long as it likes to answer, so it is asked on a
// thread of the lookup's own, and whoever asked may go meanwhile: the thread is left behind and ends by itself when the
// system has answered. That thread starts with the first question; numbers in place of a name need none.
#pragma once
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace quire {

struct HostAddress {
  sockaddr_storage bytes{};
  socklen_t n_bytes = 0;
};

// "10.0.0.1", "fd00::1"; empty: of another kind.
std::string number_text(const HostAddress& address);

class HostLookup {
 public:
  // `error` says why there are none.
  using Done = std::function<void(const std::vector<HostAddress>& found, const std::string& error)>;

  HostLookup();
  ~HostLookup();  // waits for nothing; what was not answered is never answered
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;

  // `done` is called once, on the lookup's thread, or by this call where `host` is a number; it must not block, throw
  // or call back. Who asks for the same while it is looked up shares the answer. Any thread.
  void find(const std::string& host, int port, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace quire
