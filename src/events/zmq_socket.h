// Sockets of ZeroMQ, which stays behind this header. The one idea: libzmq and the dozen libraries that it brings are
// opened when somebody asks for a socket, so that a server without one neither loads nor needs them. Messages are lists
// of frames; nothing here waits but ZmqSocket::wait. A socket belongs to one thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire {

// Bytes of a frame, shared with whoever sends them elsewhere too.
using ZmqFrame = std::shared_ptr<const std::string>;

class ZmqContext {
 public:
  // Code::unsupported where libzmq is not installed.
  static Result<std::shared_ptr<ZmqContext>> open();
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

 private:
  friend class ZmqSocket;
  explicit ZmqContext(void* context) : context_(context) {}
  void* const context_;
};

enum class ZmqKind : uint8_t { pub, sub, router, dealer };

struct ZmqOptions {
  int most_unsent = 1000, most_unread = 1000;  // messages of each peer; what comes beyond is dropped
  int64_t most_frame_bytes = -1;               // of a peer's frame; a larger one ends its connection. -1: any
};

class ZmqSocket {
 public:
  static Result<std::unique_ptr<ZmqSocket>> open(std::shared_ptr<ZmqContext> context,
                                                 ZmqKind kind,
                                                 const ZmqOptions& options);
  ~ZmqSocket();
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  // As libzmq writes addresses: tcp://127.0.0.1:5557, tcp://127.0.0.1:* for any free port, ipc:///run/events.
  Status bind(const std::string& address);
  // There need be nobody yet: it is tried until there is.
  Status connect(const std::string& address);
  std::string address() const;  // that it is bound to
  // Of kind sub: messages whose first frame begins with that.
  Status subscribe(std::string_view topic);

  // False: nobody could be given all of it, and nobody has it.
  bool send(std::span<const ZmqFrame> frames);
  // The next message; nullopt: none is here yet. Of one with more than kMostFrames frames only the first ones. Costs no
  // more than twice kMostParts of them: where one has more, the calls that follow drop the rest, and are nullopt.
  std::optional<std::vector<std::string>> receive();
  static constexpr size_t kMostFrames = 8;
  static constexpr int kMostParts = 1024;
  // How many frames receive() has read since the last call of this, those that were dropped too.
  int64_t take_n_read() { return std::exchange(n_read_, 0); }

  // Until one of the sockets has a message, or the descriptor something to read; −1 ms: for as long as it takes.
  static void wait(std::span<ZmqSocket* const> sockets, int fd, int timeout_ms);

 private:
  ZmqSocket(std::shared_ptr<ZmqContext> context, void* socket) : context_(std::move(context)), socket_(socket) {}
  Status set(int option, int value);

  std::shared_ptr<ZmqContext> context_;
  void* const socket_;
  int64_t n_read_ = 0;
  bool dropping_ = false;  // what comes next belongs to a message of which enough was read
};

}  // namespace quire
