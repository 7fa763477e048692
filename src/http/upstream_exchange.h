// One request to another server and its answer: connects or takes a kept connection, sends, reads, gives the connection
// back. Io thread only.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/host_lookup.h"
#include "http/response_parser.h"
#include "http/upstream.h"
#include "http/upstream_pool.h"

namespace quire {

class IoThread;

class UpstreamExchange final : public Upstream, public std::enable_shared_from_this<UpstreamExchange> {
 public:
  UpstreamExchange(IoThread& io,
                   UpstreamRequest request,
                   const UpstreamLimits& limits,
                   std::shared_ptr<UpstreamEvents> events);

  void start();
  void cancel() override;
  void resume() override;

  void on_readable();
  void on_writable();
  void tick(int64_t now_ns);
  // Calls a member. What it throws, most likely for want of memory, ends this exchange and nothing else.
  template <class... Args, class... Given>
  void guarded(void (UpstreamExchange::*member)(Args...), Given... given) noexcept {
    const auto self = shared_from_this();
    try {
      if (state_ != State::over) (this->*member)(given...);
    } catch (const std::exception& e) {
      fail_quietly(e.what());
    }
  }

  size_t index = 0;  // in the pool

 private:
  using error_code = boost::system::error_code;
  // greeting: agreeing on TLS. asking: sending the request, then reading the answer.
  enum class State : uint8_t { connecting, greeting, asking, over };

  void begin();
  void resolve();
  void take_addresses(std::vector<HostAddress> found, std::string error);
  void connect_next(error_code last);
  void connected();
  void greet();
  void send_wire();
  bool seal_more();
  std::string unseal(std::string_view bytes);
  void fail_to_greet();
  size_t n_to_send() const;
  bool all_sent() const;
  bool has_news() const;
  void ask();
  void send_some();
  void read_bytes(std::string_view bytes);
  void deliver_head();
  void deliver_body();
  void on_end_of_input();
  void cut_off();
  void finish();
  void fail(UpstreamFault fault, std::string message);
  void fail_quietly(const char* what) noexcept;
  void let_go(bool keep);

  IoThread& io_;
  const UpstreamRequest request_;
  const UpstreamLimits& limits_;
  std::shared_ptr<UpstreamEvents> events_;  // null once over
  std::string head_;                        // of the request, as sent
  size_t sent_ = 0;                         // of head_ and body together
  State state_ = State::connecting;
  std::shared_ptr<UpstreamSocket> socket_;
  std::vector<boost::asio::ip::tcp::endpoint> endpoints_;  // to try next, the last one first
  ResponseParser parser_;
  bool head_told_ = false, paused_ = false, sending_failed_ = false, answered_ = false;
  std::string body_;            // read and not yet taken: no more than one reading
  bool announced_end_ = false;  // over TLS: nothing follows
  int64_t begun_ns_ = 0, moved_ns_ = 0;
};

}  // namespace quire
