#include "http/acceptor.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/v6_only.hpp>
#include <chrono>
#include <cstring>
#include <exception>

#include "base/log.h"
#include "base/nanoseconds.h"

namespace quire {
namespace {

using boost::asio::ip::tcp;
using error_code = boost::system::error_code;

constexpr int kAcceptsPerWake = 64;  // then the other sockets of this thread get their turn
constexpr int kMaxRejecting = 64;    // connections over the limit that still get a 503 instead of a plain close
constexpr int kBackOffMs = 100;      // after running out of descriptors or memory

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* at = address.ss_family == AF_INET6
                       ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr)
                       : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&address)->sin_addr);
  if (inet_ntop(address.ss_family, at, text.data(), text.size()) == nullptr) return "";
  return text.data();
}

// What is counted as one client. Whoever has one IPv6 address has its whole /64.
std::string name_of(const sockaddr_storage& address) {
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (address.ss_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr))
    return text_of(address);
  sockaddr_storage network = address;
  std::memset(reinterpret_cast<sockaddr_in6&>(network).sin6_addr.s6_addr + 8, 0, 8);
  return text_of(network);
}

struct OwnedFd {
  ~OwnedFd() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Acceptor::Acceptor(std::shared_ptr<ServerShared> shared, std::vector<std::shared_ptr<IoThread>> threads)
    : shared_(std::move(shared)),
      threads_(std::move(threads)),
      acceptor_(threads_.front()->context()),
      pause_(threads_.front()->context()) {}

bool Acceptor::try_listen(const tcp::endpoint& at, error_code& ec) {
  error_code ignored;
  acceptor_.close(ignored);
  acceptor_.open(at.protocol(), ec);
  if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && at.protocol() == tcp::v6()) acceptor_.set_option(boost::asio::ip::v6_only(false), ignored);
  if (!ec) acceptor_.bind(at, ec);
  if (!ec) acceptor_.listen(tcp::acceptor::max_listen_connections, ec);
  if (!ec) acceptor_.non_blocking(true, ec);
  return !ec;
}

Status Acceptor::listen(const std::string& host, int port) {
  const std::string where = host + ":" + std::to_string(port);
  if (port < 0 || port > 65535)
    return fail(Code::invalid, "port " + std::to_string(port) + " is not between 0 and 65535");
  error_code ec;
  tcp::resolver resolver(threads_.front()->context());
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec) return fail(Code::io, "cannot listen on " + where + ": no such host (" + ec.message() + ")");
  for (const auto& entry : found) {
    const tcp::endpoint at = entry.endpoint();
    if (!try_listen(at, ec)) continue;
    v6_ = at.protocol() == tcp::v6();
    address_ = at.address().to_string();
    port_ = acceptor_.local_endpoint(ec).port();
    return {};
  }
  std::string reason = ec.message();
  if (ec == boost::asio::error::address_in_use) reason = "the port is in use";
  return fail(Code::io, "cannot listen on " + where + ": " + reason);
}

std::string Acceptor::url() const {
  const std::string scheme = threads_.front()->shared().tls != nullptr ? "https://" : "http://";
  return scheme + (v6_ ? "[" + address_ + "]" : address_) + ":" + std::to_string(port_);
}

// The second clock of its thread is set once now, so that Asio's list of clocks has its place when there is no memory.
void Acceptor::start() {
  wait();
  pause_.expires_after(std::chrono::milliseconds(0));
  pause_.async_wait([self = shared_from_this()](error_code) {});
}

void Acceptor::stop() {
  error_code ec;
  acceptor_.close(ec);
  pause_.cancel();
}

void Acceptor::wait() {
  acceptor_.async_wait(tcp::acceptor::wait_read, accept_slot_.bind([self = shared_from_this()](error_code ec) {
    if (ec || !self->acceptor_.is_open()) return;
    self->accept_some();
    self->threads_.front()->run_work();
  }));
}

void Acceptor::accept_some() {
  for (int i = 0; i < kAcceptsPerWake; ++i)
    if (!accept_one()) return;
  wait();
}

// False: this round is over, and the next one is arranged for.
bool Acceptor::accept_one() {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  const int fd = ::accept4(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&address), &length,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (is_shortage(errno)) {
      back_off(errno);
      return false;
    }
    if (errno == EAGAIN) {
      wait();
      return false;
    }
    return true;  // that one client has gone already
  }
  try {
    hand_over(fd, address);
    return true;
  } catch (const std::exception&) {  // and the socket was closed
    back_off(ENOMEM);
    return false;
  }
}

// Gives the socket to a thread, or closes it.
void Acceptor::hand_over(int fd, const sockaddr_storage& address) {
  OwnedFd owned{fd};
  ServerShared& shared = *shared_;
  const int over = shared.n_connections.load() - shared.limits.n_connections;
  if (over >= kMaxRejecting) return;
  const auto fewest = std::min_element(threads_.begin(), threads_.end(), [](const auto& x, const auto& y) {
    return x->n_connections() < y->n_connections();
  });
  std::string peer = text_of(address);
  int n_of_address = 0;
  Place place(shared_, shared.addresses.enter(name_of(address), n_of_address), (*fewest)->n_connections());
  const auto arrival = std::make_shared<Arrival>(fd, std::move(peer), std::move(place));
  owned.fd = -1;  // the arrival's
  const int limit = shared.limits.n_connections_per_address;
  const bool over_of_address = limit > 0 && n_of_address > limit;
  if (over_of_address && n_of_address > limit + kMaxRejecting) return;
  arrival->v6 = v6_;
  if (over >= 0)
    arrival->reject = Reject::all_in_use;
  else if (over_of_address)
    arrival->reject = Reject::all_of_address;
  (*fewest)->adopt(arrival);
}

// Waiting clients stay in the kernel's backlog until something is free again.
void Acceptor::back_off(int error) {
  threads_.front()->shared().metrics->accept_failed.add();
  const int64_t now = IoThread::now_ns();
  if (logged_ns_ == 0 || now - logged_ns_ >= kNsPerSecond) {
    logged_ns_ = now;
    try {
      log_warn(std::string("http: cannot accept connections: ") + std::strerror(error));
    } catch (const std::exception&) {  // then without a line
    }
  }
  pause_.expires_after(std::chrono::milliseconds(kBackOffMs));
  pause_.async_wait(pause_slot_.bind([self = shared_from_this()](error_code ec) {
    if (!ec && self->acceptor_.is_open()) self->wait();
  }));
}

}  // namespace quire
