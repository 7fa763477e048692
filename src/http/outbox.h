// What waits to go to one client: small pieces gathered, large ones kept as the strings they came in, so that a body of
// many MB is never copied. Under TLS a record is encrypted when the one before is with the kernel. Io thread only.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class TlsSession;

class Outbox {
 public:
  // waiting: TLS is not ready, and nothing can be sent until the client has spoken.
  enum class Result : uint8_t { all_sent, more, blocked, waiting, failed };

  // `tls` may be null: then bytes go out as they are.
  explicit Outbox(TlsSession* tls) : tls_(tls) {}

  void append(std::string_view bytes);
  void append(std::string&& bytes);
  // Where TLS puts what it has to say itself.
  std::string& wire() { return wire_; }

  // Gives the kernel at most `most` bytes, and says how many it took.
  Result flush(int fd, size_t most, size_t& n_sent);

  bool empty() const { return bytes_ == 0 && wire_at_ == wire_.size(); }
  size_t unsent_wire_bytes() const { return wire_.size() - wire_at_; }
  int64_t unsent_bytes() const { return static_cast<int64_t>(bytes_ + wire_.size() - wire_at_); }
  int64_t held_bytes() const { return static_cast<int64_t>(held_ + wire_.capacity()); }

 private:
  bool encrypt_next();
  ssize_t send_wire(int fd, size_t most);
  ssize_t send_pieces(int fd, size_t most);
  void consume(size_t n);

  TlsSession* const tls_;
  std::vector<std::string> pieces_;  // not yet encrypted; those before first_ are gone
  size_t first_ = 0, at_ = 0;        // at_: of the first, already sent
  size_t bytes_ = 0, held_ = 0;      // of the pieces: unsent, capacity
  std::string wire_;                 // under TLS: for the socket
  size_t wire_at_ = 0;
};

}  // namespace quire
