// An exchange over TLS: the handshake, and what is sealed on its way out and unsealed on its way in.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "http/io_thread.h"
#include "http/tls.h"
#include "http/tls_bytes.h"
#include "http/upstream_exchange.h"

namespace quire {

void UpstreamExchange::greet() {
  const std::string& name = request_.to.tls_name;
  if (limits_.trust == nullptr) return fail(UpstreamFault::unreached, "cannot connect: nobody is trusted over TLS");
  socket_->tls = TlsSession::open(*limits_.trust, name);
  if (socket_->tls == nullptr)
    return fail(UpstreamFault::unreached, "cannot connect: no TLS for a host of the name '" + name + "'");
  state_ = State::greeting;
  if (!socket_->tls->greet(socket_->wire)) return fail_to_greet();
  socket_->arm_read();
  send_wire();
}

void UpstreamExchange::fail_to_greet() {
  const std::string why = socket_->tls->refusal();
  fail(UpstreamFault::unreached, "cannot connect over TLS to '" + request_.to.tls_name +
                                     "': " + (why.empty() ? "the connection was cut in the handshake" : why));
}

// The next record of what is asked. False: there is none, or it could not be sealed.
bool UpstreamExchange::seal_more() {
  if (state_ != State::asking || sent_ == n_to_send()) return false;
  const bool of_head = sent_ < head_.size();
  const std::string& from = of_head ? head_ : *request_.body;
  const std::string_view rest = std::string_view(from).substr(of_head ? sent_ : sent_ - head_.size());
  const std::string_view piece = rest.substr(0, kTlsRecordBytes);
  if (!socket_->tls->send(piece, socket_->wire)) {
    sending_failed_ = true;
    return false;
  }
  sent_ += piece.size();
  return true;
}

// No more than a record is sealed ahead of the kernel.
void UpstreamExchange::send_wire() {
  constexpr int kTurnRecords = 16;  // to one server, before the others of this thread have their turn
  std::string& wire = socket_->wire;
  for (int n_records = 0; !sending_failed_ && (!wire.empty() || (n_records++ < kTurnRecords && seal_more()));) {
    const ssize_t n = ::send(socket_->socket.native_handle(), wire.data(), wire.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      wire.erase(0, static_cast<size_t>(n));
      if (state_ == State::asking) moved_ns_ = io_.patience_ns();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      sending_failed_ = true;
    }
  }
  const bool more = !wire.empty() || (state_ == State::asking && sent_ < n_to_send());
  if (more && !sending_failed_) socket_->arm_write();
}

// What the server says in these bytes. Where it says nothing more, or breaks off, the exchange
// knows it.
std::string UpstreamExchange::unseal(std::string_view bytes) {
  std::string plain;
  TlsSession& tls = *socket_->tls;
  const TlsSession::State now = tls.receive(bytes, plain, socket_->wire);
  if (now == TlsSession::State::failed) {
    send_wire();  // the word that says why
    if (state_ == State::greeting)
      fail_to_greet();
    else
      fail(UpstreamFault::cut, "the connection broke: " + tls.refusal());
    return {};
  }
  if (socket_->wire.size() > kMaxTlsTalk) {
    fail(UpstreamFault::malformed, "made TLS talk of " + std::to_string(socket_->wire.size()) + " bytes, at most " +
                                       std::to_string(kMaxTlsTalk) + " wait to be taken");
    return {};
  }
  announced_end_ = now == TlsSession::State::closed;
  if (state_ == State::greeting && tls.ready())
    ask();
  else
    send_wire();
  return plain;
}

}  // namespace quire
