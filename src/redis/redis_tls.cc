// A client's connection over TLS: whom it believes, the handshake, and what is sealed on its way out and unsealed on
// its way in.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "http/tls.h"
#include "http/tls_bytes.h"
#include "redis/redis_client.h"

namespace quire {

Status read_redis_tls(RedisOptions& options, const RedisTlsFiles& files) {
  if (files.certificate.empty() != files.key.empty())
    return fail(Code::invalid, "a certificate needs its key and a key its certificate");
  if (!options.over_tls) {
    if (files.ca.empty() && files.certificate.empty()) return {};
    return fail(Code::invalid, "certificates need an address that begins with rediss://");
  }
  QR_TRY(options.trust, TlsTrust::load(files.ca, {files.certificate, files.key}));
  return {};
}

void RedisClient::greet() {
  tls_ = TlsSession::open(*options_.trust, options_.host, false);
  if (tls_ == nullptr) return give_up("no TLS for a host of that name");
  if (!tls_->greet(wire_)) return give_up("cannot agree on TLS: " + tls_->refusal());
  if (!flush()) give_up(std::strerror(errno));
}

// False: the connection was given up.
bool RedisClient::unseal(std::string_view bytes, std::string& plain) {
  const TlsSession::State now = tls_->receive(bytes, plain, wire_);
  if (now == TlsSession::State::failed) {
    const std::string why = (connecting_ ? "cannot agree on TLS: " : "TLS broke: ") + tls_->refusal();
    static_cast<void>(flush());  // the word that says why
    return give_up(why), false;
  }
  if (now == TlsSession::State::closed && plain.empty()) return give_up("it closed the connection"), false;
  if (wire_.size() > kMaxTlsTalk) return give_up("it makes TLS talk, and does not listen"), false;
  if (connecting_ && tls_->ready()) set_up();
  return true;
}

// As send(2). What is sealed waits for the kernel in wire_, one record at most.
int64_t RedisClient::write_some(std::string_view bytes) {
  if (tls_ == nullptr) return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (!wire_.empty()) return errno = EAGAIN, -1;
  const std::string_view piece = bytes.substr(0, kTlsRecordBytes);
  if (!tls_->send(piece, wire_)) return errno = EPIPE, -1;
  return flush() ? static_cast<int64_t>(piece.size()) : -1;
}

// What is sealed, as far as the kernel takes it. False: errno says why not.
bool RedisClient::flush() {
  while (!wire_.empty()) {
    const ssize_t n = ::send(fd_, wire_.data(), wire_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return true;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    wire_.erase(0, static_cast<size_t>(n));
  }
  return true;
}

}  // namespace quire
