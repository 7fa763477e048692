#include "http/upstream_pool.h"

#include <algorithm>
#include <exception>

#include "base/nanoseconds.h"
#include "http/io_thread.h"
#include "http/tls.h"
#include "http/upstream_exchange.h"

namespace quire {
namespace {

using boost::asio::ip::tcp;

}  // namespace

UpstreamSocket::UpstreamSocket(IoThread& io, UpstreamAddress at)
    : socket(io.context()), address(std::move(at)), io_(io) {}

UpstreamSocket::~UpstreamSocket() = default;

void UpstreamSocket::arm_read() {
  if (reading_ || closed()) return;
  reading_ = true;
  socket.async_wait(tcp::socket::wait_read, read_slot_.bind([self = shared_from_this()](boost::system::error_code) {
    self->reading_ = false;
    if (self->user != nullptr) {
      self->user->guarded(&UpstreamExchange::on_readable);
    } else if (!self->closed()) {  // nobody asked: the server ends it, or says what it may not
      self->close();
      self->io_.upstreams().drop(*self);
    }
    self->io_.run_work();
  }));
}

void UpstreamSocket::arm_write() {
  if (writing_ || closed()) return;
  writing_ = true;
  socket.async_wait(tcp::socket::wait_write, write_slot_.bind([self = shared_from_this()](boost::system::error_code) {
    self->writing_ = false;
    if (self->user != nullptr) self->user->guarded(&UpstreamExchange::on_writable);
    self->io_.run_work();
  }));
}

void UpstreamSocket::close() {
  boost::system::error_code ec;
  socket.close(ec);
}

std::shared_ptr<UpstreamSocket> UpstreamPool::take(const UpstreamAddress& address) {
  const auto found = kept_.find(address);
  if (found == kept_.end()) return nullptr;
  auto socket = std::move(found->second.back());
  found->second.pop_back();
  if (found->second.empty()) kept_.erase(found);
  return socket;
}

void UpstreamPool::keep(std::shared_ptr<UpstreamSocket> socket, const UpstreamLimits& limits) {
  socket->user = nullptr;
  socket->used_before = true;
  socket->kept_until_ns = io_.patience_ns() + int64_t{limits.kept_ms} * kNsPerMs;
  const auto found = kept_.find(socket->address);
  const int64_t n_kept = found != kept_.end() ? std::ssize(found->second) : 0;
  if (n_kept >= limits.n_kept) return socket->close();
  kept_[socket->address].push_back(socket);  // no address is there without a connection
  socket->arm_read();
}

void UpstreamPool::drop(const UpstreamSocket& socket) {
  const auto found = kept_.find(socket.address);
  if (found == kept_.end()) return;
  std::erase_if(found->second, [&](const auto& one) { return one.get() == &socket; });
  if (found->second.empty()) kept_.erase(found);
}

void UpstreamPool::enter(std::shared_ptr<UpstreamExchange> exchange) {
  exchange->index = under_way_.size();
  under_way_.push_back(std::move(exchange));
}

void UpstreamPool::leave(const UpstreamExchange& exchange) {
  const size_t i = exchange.index;
  QR_CHECK(i < under_way_.size() && under_way_[i].get() == &exchange);
  const auto last = std::move(under_way_.back());
  under_way_.pop_back();
  if (i == under_way_.size()) return;
  last->index = i;
  under_way_[i] = last;
}

// From the back: one that ends is replaced by the last, which has had its turn.
void UpstreamPool::tick(int64_t now_ns) {
  for (size_t i = under_way_.size(); i-- > 0;) {
    if (i >= under_way_.size()) continue;  // its end has ended others
    const std::shared_ptr<UpstreamExchange> exchange = under_way_[i];
    exchange->guarded(&UpstreamExchange::tick, now_ns);
  }
  for (auto it = kept_.begin(); it != kept_.end();) {
    std::erase_if(it->second, [&](const auto& socket) {
      if (socket->kept_until_ns > now_ns) return false;
      socket->close();
      return true;
    });
    it = it->second.empty() ? kept_.erase(it) : std::next(it);
  }
}

void UpstreamPool::shut_down() {
  while (!under_way_.empty()) std::shared_ptr(under_way_.back())->cancel();
  for (const auto& [address, sockets] : kept_)
    for (const auto& socket : sockets) socket->close();
  kept_.clear();
}

}  // namespace quire
