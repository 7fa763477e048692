// TLS between a connection and its socket: bytes of the network in and out on one side, bytes of HTTP on the other, no
// socket here. OpenSSL over memory buffers, so that reading, writing and waiting stay the connection's; versions 1.2
// and 1.3, no renegotiation, HTTP/1.1 by ALPN.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace quire {

// Certificate and key, for all connections of a server. Immutable; any thread.
class TlsContext {
 public:
  // PEM files: the certificate with its chain, and its key without a passphrase. Fails (Code::io, Code::invalid) naming
  // the file.
  static Result<std::shared_ptr<const TlsContext>> load(const std::string& certificate, const std::string& key);
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

// The server's end of one connection. Io thread only.
class TlsSession {
 public:
  enum class State : uint8_t { open, closed, failed };  // closed: the client said that nothing follows

  // Null: no memory.
  static std::unique_ptr<TlsSession> open(const TlsContext& context);
  // What came from the network. Appends what the client says to `plain` and what must be answered to `wire`. After
  // `failed` only `wire` may still be sent.
  State receive(std::string_view bytes, std::string& plain, std::string& wire);
  // Appends `plain` to `wire`, encrypted. False: the session is broken. REQUIRES ready().
  bool send(std::string_view plain, std::string& wire);
  // Appends the word that nothing follows.
  void close(std::string& wire);
  bool ready() const;  // the handshake is complete

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  explicit TlsSession(ssl_st* ssl) : ssl_(ssl) {}
  void drain(std::string& wire);
  std::unique_ptr<ssl_st, Free> ssl_;
};

}  // namespace quire
