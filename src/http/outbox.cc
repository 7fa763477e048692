#include "http/outbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "http/byte_budget.h"
#include "http/tls.h"

namespace quire {
namespace {

constexpr size_t kPieceBytes = 16 << 10;  // gathered; of TLS a record
constexpr size_t kPiecesPerSend = 16;

}  // namespace

void Outbox::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (first_ == pieces_.size() || pieces_.back().size() + bytes.size() > kPieceBytes) pieces_.emplace_back();
  std::string& last = pieces_.back();
  held_ -= std::min(held_, last.capacity());
  last += bytes;
  held_ += last.capacity();
  bytes_ += bytes.size();
}

void Outbox::append(std::string&& bytes) {
  if (bytes.size() < kPieceBytes) return append(std::string_view(bytes));
  if (first_ < pieces_.size() && pieces_.back().empty()) {  // kept for small ones
    pieces_.pop_back();
    held_ = 0;
  }
  pieces_.push_back(std::move(bytes));
  held_ += pieces_.back().capacity();
  bytes_ += pieces_.back().size();
}

// The next record, when the one before is sent. False: the session is broken.
bool Outbox::encrypt_next() {
  if (wire_at_ < wire_.size()) return true;
  wire_.clear();
  wire_at_ = 0;
  if (wire_.capacity() > static_cast<size_t>(kFreeBytes)) std::string().swap(wire_);
  if (bytes_ == 0 || !tls_->ready()) return true;
  const std::string_view piece = std::string_view(pieces_[first_]).substr(at_, kPieceBytes);
  if (!tls_->send(piece, wire_)) return false;
  consume(piece.size());
  return true;
}

ssize_t Outbox::send_wire(int fd, size_t most) {
  const ssize_t n =
      ::send(fd, wire_.data() + wire_at_, std::min(most, wire_.size() - wire_at_), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) wire_at_ += static_cast<size_t>(n);
  return n;
}

ssize_t Outbox::send_pieces(int fd, size_t most) {
  std::array<iovec, kPiecesPerSend> parts{};
  msghdr message{};
  message.msg_iov = parts.data();
  size_t at = at_;
  for (size_t i = first_; i < pieces_.size() && message.msg_iovlen < parts.size() && most > 0; ++i) {
    const size_t n = std::min(most, pieces_[i].size() - at);
    parts[message.msg_iovlen++] = {pieces_[i].data() + at, n};
    most -= n;
    at = 0;
  }
  const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) consume(static_cast<size_t>(n));
  return n;
}

void Outbox::consume(size_t n) {
  bytes_ -= n;
  while (n > 0) {
    const size_t of_this = std::min(n, pieces_[first_].size() - at_);
    n -= of_this;
    at_ += of_this;
    if (at_ < pieces_[first_].size()) return;
    at_ = 0;
    const bool last = first_ + 1 == pieces_.size();
    if (last && pieces_[first_].capacity() <= static_cast<size_t>(kFreeBytes)) {  // the next answer's
      std::swap(pieces_.front(), pieces_[first_]);
      pieces_.resize(1);
      pieces_.front().clear();
      held_ = pieces_.front().capacity();
      first_ = 0;
      return;
    }
    held_ -= pieces_[first_].capacity();
    std::string().swap(pieces_[first_++]);
  }
  if (first_ == pieces_.size()) {
    std::vector<std::string>().swap(pieces_);
    first_ = held_ = 0;
  } else if (first_ > kPiecesPerSend && first_ > pieces_.size() / 2) {
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

Outbox::Result Outbox::flush(int fd, size_t most, size_t& n_sent) {
  n_sent = 0;
  while (n_sent < most) {
    if (tls_ != nullptr && !encrypt_next()) return Result::failed;
    if (empty()) return Result::all_sent;
    if (tls_ != nullptr && wire_at_ == wire_.size()) return Result::waiting;
    const ssize_t n = tls_ != nullptr ? send_wire(fd, most - n_sent) : send_pieces(fd, most - n_sent);
    if (n > 0) {
      n_sent += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Result::blocked;
    } else if (n == 0 || errno != EINTR) {
      return Result::failed;
    }
  }
  return empty() ? Result::all_sent : Result::more;
}

}  // namespace quire
