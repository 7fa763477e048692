// The connections of one io thread to other servers: those that wait for their next exchange, bounded by address and in
// time, and the exchanges that are under way. Io thread only.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "http/op_slot.h"
#include "http/upstream.h"

namespace quire {

class IoThread;
class UpstreamExchange;
class TlsSession;

// A socket, whoever uses it now. Its waits go on from one user to the next; without one, whatever comes ends it.
class UpstreamSocket : public std::enable_shared_from_this<UpstreamSocket> {
 public:
  UpstreamSocket(IoThread& io, UpstreamAddress at);
  ~UpstreamSocket();

  void arm_read();
  void arm_write();
  void close();
  bool closed() const { return !socket.is_open(); }

  boost::asio::ip::tcp::socket socket;
  const UpstreamAddress address;
  UpstreamExchange* user = nullptr;
  int64_t kept_until_ns = 0;
  std::unique_ptr<TlsSession> tls;  // null: plain
  std::string wire;                 // sealed, and not with the kernel yet
  bool used_before = false;         // an exchange is over

 private:
  IoThread& io_;
  OpSlot read_slot_, write_slot_;
  bool reading_ = false, writing_ = false;  // a wait is under way
};

class UpstreamPool {
 public:
  explicit UpstreamPool(IoThread& io) : io_(io) {}

  // A kept connection, the one that was used last; null: there is none.
  std::shared_ptr<UpstreamSocket> take(const UpstreamAddress& address);
  // Keeps a connection whose exchange is over, or closes it where there is no room.
  void keep(std::shared_ptr<UpstreamSocket> socket, const UpstreamLimits& limits);
  // It was closed while it was kept.
  void drop(const UpstreamSocket& socket);

  void enter(std::shared_ptr<UpstreamExchange> exchange);
  void leave(const UpstreamExchange& exchange);
  void tick(int64_t now_ns);
  // Ends all; exchanges hear nothing more.
  void shut_down();

 private:
  IoThread& io_;
  std::map<UpstreamAddress, std::vector<std::shared_ptr<UpstreamSocket>>> kept_;
  std::vector<std::shared_ptr<UpstreamExchange>> under_way_;
};

}  // namespace quire
