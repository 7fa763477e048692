// The listening socket: lives on the first io thread and hands each accepted socket to the thread with the fewest
// connections. Not SO_REUSEPORT: with it a second server on the same port would start silently and steal half the
// clients, and the kernel's hashing spreads few connections badly.
#pragma once
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/io_thread.h"

namespace quire {

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  // REQUIRES threads not empty; they outlive the acceptor's last callback.
  Acceptor(std::shared_ptr<ServerShared> shared, std::vector<std::shared_ptr<IoThread>> threads);

  // Before the threads start. Fails (Code::io, Code::invalid) naming host and port.
  Status listen(const std::string& host, int port);
  int port() const { return port_; }
  std::string url() const;

  // The first io thread, or before it starts.
  void start();
  void stop();

 private:
  bool try_listen(const boost::asio::ip::tcp::endpoint& at, boost::system::error_code& ec);
  void wait();
  void accept_some();
  bool accept_one();
  void hand_over(int fd, const sockaddr_storage& address);
  void back_off(int error);

  const std::shared_ptr<ServerShared> shared_;
  std::vector<std::shared_ptr<IoThread>> threads_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  OpSlot accept_slot_, pause_slot_;
  std::string address_;
  int port_ = 0;
  bool v6_ = false;
  int64_t logged_ns_ = 0;
};

}  // namespace quire
