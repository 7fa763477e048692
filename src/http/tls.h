// TLS between a connection and its socket: bytes of the network in and out on one side, bytes of HTTP on the other, no
// socket here. OpenSSL over memory buffers, so that reading, writing and waiting stay the connection's; versions 1.2
// and 1.3, no renegotiation, HTTP/1.1 by ALPN where HTTP is spoken.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace quire {

struct FreeTlsContext {
  void operator()(ssl_ctx_st* context) const;
};

// PEM files: a certificate with its chain, and its key without a passphrase.
struct TlsFiles {
  std::string certificate, key;
};

// Certificate and key, for all connections of a server. Immutable; any thread.
class TlsContext {
 public:
  // As TlsFiles. Fails (Code::io, Code::invalid) naming the file.
  static Result<std::shared_ptr<const TlsContext>> load(const std::string& certificate, const std::string& key);
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  std::unique_ptr<ssl_ctx_st, FreeTlsContext> context_;
};

// Whose certificates are believed, for all connections to other servers. Immutable; any thread.
class TlsTrust {
 public:
  // A PEM file of certificates, each of which is trusted with all that it has signed; empty: what OpenSSL is set up
  // with on this machine. `own`: what is shown to servers that ask who we are; empty: nothing. Fails (Code::io,
  // Code::invalid) naming the file.
  static Result<std::shared_ptr<const TlsTrust>> load(const std::string& file, const TlsFiles& own = {});
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  std::unique_ptr<ssl_ctx_st, FreeTlsContext> context_;
};

// One end of a connection. Io thread only.
class TlsSession {
 public:
  enum class State : uint8_t { open, closed, failed };  // closed: the other said that nothing follows

  // The server's end. Null: no memory.
  static std::unique_ptr<TlsSession> open(const TlsContext& context);
  // The client's end, of a connection to a server whose certificate has to be of `name`, a host's or an address, and
  // which is told that HTTP/1.1 follows unless `http` is false. Null: no memory, or `name` can be no host's. Begin with
  // greet().
  static std::unique_ptr<TlsSession> open(const TlsTrust& trust, const std::string& name, bool http = true);
  // The client's first words. False: there are none.
  bool greet(std::string& wire);
  // What came from the network. Appends what the other says to `plain` and what must be answered to `wire`. After
  // `failed` only `wire` may still be sent.
  State receive(std::string_view bytes, std::string& plain, std::string& wire);
  // Appends `plain` to `wire`, encrypted. False: the session is broken. REQUIRES ready().
  bool send(std::string_view plain, std::string& wire);
  // Appends the word that nothing follows.
  void close(std::string& wire);
  bool ready() const;  // the handshake is complete
  // Why a client's handshake came to nothing, once receive() or greet() has failed.
  std::string refusal() const;

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  explicit TlsSession(ssl_st* ssl) : ssl_(ssl) {}
  static std::unique_ptr<TlsSession> over_memory(ssl_ctx_st* context);
  void drain(std::string& wire);
  std::unique_ptr<ssl_st, Free> ssl_;
  std::string fault_;  // OpenSSL's word for what failed
};

}  // namespace quire
