#include "events/zmq_socket.h"

#include <dlfcn.h>
#include <zmq.h>

#include <array>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

// libzmq's functions, for the rest of the process.
struct Zmq {
  decltype(&zmq_ctx_new) ctx_new = nullptr;
  decltype(&zmq_ctx_term) ctx_term = nullptr;
  decltype(&zmq_errno) last_error = nullptr;
  decltype(&zmq_strerror) strerror = nullptr;
  decltype(&zmq_socket) socket = nullptr;
  decltype(&zmq_close) close = nullptr;
  decltype(&zmq_setsockopt) setsockopt = nullptr;
  decltype(&zmq_getsockopt) getsockopt = nullptr;
  decltype(&zmq_bind) bind = nullptr;
  decltype(&zmq_connect) connect = nullptr;
  decltype(&zmq_poll) poll = nullptr;
  decltype(&zmq_msg_init) msg_init = nullptr;
  decltype(&zmq_msg_init_data) msg_init_data = nullptr;
  decltype(&zmq_msg_send) msg_send = nullptr;
  decltype(&zmq_msg_recv) msg_recv = nullptr;
  decltype(&zmq_msg_close) msg_close = nullptr;
  decltype(&zmq_msg_data) msg_data = nullptr;
  decltype(&zmq_msg_size) msg_size = nullptr;
  decltype(&zmq_msg_more) msg_more = nullptr;
  std::string missing;  // why it cannot be used; empty: it can

  static const Zmq& get() {
    static const Zmq kZmq = open();
    return kZmq;
  }
  Error error(const std::string& what) const { return {Code::io, what + ": " + strerror(last_error())}; }

 private:
  static Zmq open() {
    Zmq out;
    void* library = ::dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      out.missing = ::dlerror();
      return out;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (function == nullptr) out.missing = std::string("libzmq.so.5 has no ") + name;
    };
    find(out.ctx_new, "zmq_ctx_new");
    find(out.ctx_term, "zmq_ctx_term");
    find(out.last_error, "zmq_errno");
    find(out.strerror, "zmq_strerror");
    find(out.socket, "zmq_socket");
    find(out.close, "zmq_close");
    find(out.setsockopt, "zmq_setsockopt");
    find(out.getsockopt, "zmq_getsockopt");
    find(out.bind, "zmq_bind");
    find(out.connect, "zmq_connect");
    find(out.poll, "zmq_poll");
    find(out.msg_init, "zmq_msg_init");
    find(out.msg_init_data, "zmq_msg_init_data");
    find(out.msg_send, "zmq_msg_send");
    find(out.msg_recv, "zmq_msg_recv");
    find(out.msg_close, "zmq_msg_close");
    find(out.msg_data, "zmq_msg_data");
    find(out.msg_size, "zmq_msg_size");
    find(out.msg_more, "zmq_msg_more");
    return out;
  }
};

int type_of(ZmqKind kind) {
  switch (kind) {
    case ZmqKind::pub: return ZMQ_PUB;
    case ZmqKind::sub: return ZMQ_SUB;
    case ZmqKind::router: return ZMQ_ROUTER;
    case ZmqKind::dealer: return ZMQ_DEALER;
  }
  return ZMQ_PUB;
}

// libzmq calls it on a thread of its own when no peer needs the bytes any more.
void let_go(void*, void* frame) { delete static_cast<ZmqFrame*>(frame); }

}  // namespace

Result<std::shared_ptr<ZmqContext>> ZmqContext::open() {
  const Zmq& zmq = Zmq::get();
  if (!zmq.missing.empty()) return fail(Code::unsupported, "ZeroMQ cannot be used (package libzmq5): " + zmq.missing);
  void* context = zmq.ctx_new();
  if (context == nullptr) return tl::make_unexpected(zmq.error("ZeroMQ cannot start"));
  return std::shared_ptr<ZmqContext>(new ZmqContext(context));
}

// Every socket is closed: each holds its context.
ZmqContext::~ZmqContext() { Zmq::get().ctx_term(context_); }

Result<std::unique_ptr<ZmqSocket>> ZmqSocket::open(std::shared_ptr<ZmqContext> context,
                                                   ZmqKind kind,
                                                   const ZmqOptions& options) {
  const Zmq& zmq = Zmq::get();
  void* socket = zmq.socket(context->context_, type_of(kind));
  if (socket == nullptr) return tl::make_unexpected(zmq.error("a ZeroMQ socket"));
  std::unique_ptr<ZmqSocket> out(new ZmqSocket(std::move(context), socket));
  QR_TRY_VOID(out->set(ZMQ_LINGER, 0));
  QR_TRY_VOID(out->set(ZMQ_SNDHWM, options.most_unsent));
  QR_TRY_VOID(out->set(ZMQ_RCVHWM, options.most_unread));
  const int64_t most = options.most_frame_bytes;
  if (zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof(most)) != 0)
    return tl::make_unexpected(zmq.error("a limit of ZeroMQ"));
  return out;
}

ZmqSocket::~ZmqSocket() { Zmq::get().close(socket_); }

Status ZmqSocket::set(int option, int value) {
  const Zmq& zmq = Zmq::get();
  if (zmq.setsockopt(socket_, option, &value, sizeof(value)) == 0) return {};
  return tl::make_unexpected(zmq.error("an option of ZeroMQ"));
}

Status ZmqSocket::bind(const std::string& address) {
  const Zmq& zmq = Zmq::get();
  if (address.find('[') != address.npos) {
    QR_TRY_VOID(set(ZMQ_IPV6, 1));
  }
  if (zmq.bind(socket_, address.c_str()) == 0) return {};
  return tl::make_unexpected(zmq.error(address));
}

Status ZmqSocket::connect(const std::string& address) {
  const Zmq& zmq = Zmq::get();
  if (address.find('[') != address.npos) {
    QR_TRY_VOID(set(ZMQ_IPV6, 1));
  }
  if (zmq.connect(socket_, address.c_str()) == 0) return {};
  return tl::make_unexpected(zmq.error(address));
}

std::string ZmqSocket::address() const {
  std::array<char, 256> text{};
  size_t n = text.size();
  if (Zmq::get().getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &n) != 0) return "";
  return text.data();
}

Status ZmqSocket::subscribe(std::string_view topic) {
  const Zmq& zmq = Zmq::get();
  if (zmq.setsockopt(socket_, ZMQ_SUBSCRIBE, topic.data(), topic.size()) == 0) return {};
  return tl::make_unexpected(zmq.error("a topic"));
}

// libzmq queues a message whole or not at all, so frames behind the first one cannot fail for want of room.
bool ZmqSocket::send(std::span<const ZmqFrame> frames) {
  const Zmq& zmq = Zmq::get();
  for (size_t i = 0; i < frames.size(); ++i) {
    auto held = std::make_unique<ZmqFrame>(frames[i]);
    zmq_msg_t message;
    // libzmq changes no byte of a message that is sent.
    void* bytes = const_cast<char*>(frames[i]->data());
    if (zmq.msg_init_data(&message, bytes, frames[i]->size(), &let_go, held.get()) != 0) return false;
    [[maybe_unused]] const ZmqFrame* given = held.release();  // let_go has it
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    if (zmq.msg_send(&message, socket_, flags) >= 0) continue;
    zmq.msg_close(&message);
    return false;
  }
  return true;
}

std::optional<std::vector<std::string>> ZmqSocket::receive() {
  const Zmq& zmq = Zmq::get();
  std::vector<std::string> out;
  for (int n = 0; n < kMostParts; ++n) {
    zmq_msg_t message;
    zmq.msg_init(&message);
    if (zmq.msg_recv(&message, socket_, ZMQ_DONTWAIT) < 0) {
      zmq.msg_close(&message);
      return std::nullopt;  // a message comes whole, so this was its first frame
    }
    ++n_read_;
    if (!dropping_ && out.size() < kMostFrames)
      out.emplace_back(static_cast<const char*>(zmq.msg_data(&message)), zmq.msg_size(&message));
    const bool more = zmq.msg_more(&message) != 0;
    zmq.msg_close(&message);
    if (more) continue;
    if (!dropping_) return out;
    dropping_ = false;
    n = -1;  // the next message
  }
  if (std::exchange(dropping_, true)) return std::nullopt;
  return out;
}

void ZmqSocket::wait(std::span<ZmqSocket* const> sockets, int fd, int timeout_ms) {
  std::vector<zmq_pollitem_t> items;
  for (const ZmqSocket* socket : sockets) items.push_back({socket->socket_, 0, ZMQ_POLLIN, 0});
  if (fd >= 0) items.push_back({nullptr, fd, ZMQ_POLLIN, 0});
  Zmq::get().poll(items.data(), static_cast<int>(items.size()), timeout_ms);
}

}  // namespace quire
