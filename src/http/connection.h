// One client's socket: reads requests one after the other, hands each to the handler, and writes its reply. Readiness
// is awaited, then read and written without blocking, so an idle connection holds no buffers and a departed client is
// seen while nothing is being written. What it does for its client it does in turns, each a bounded amount of work.
// Io thread only.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "http/io_thread.h"
#include "http/op_slot.h"
#include "http/outbox.h"
#include "http/request_parser.h"
#include "http/stream.h"
#include "http/tls.h"

namespace quire {

class Connection : public std::enable_shared_from_this<Connection>, public Turns::Waiter {
 public:
  // Takes the arrival's place.
  Connection(IoThread& io, boost::asio::ip::tcp::socket socket, Arrival& arrival);

  void start(Reject reject);
  // Sends what a reply that is under way has gathered. If that was something of the step that woke the thread, and all
  // of it is with the kernel, its delivery is timed.
  void sweep(int64_t woken_ns);
  void tick();
  // Writes what the socket takes, then uses bytes that are here, or reads some.
  void take_turn();
  // Calls a member. What it throws, most likely for want of memory, ends this connection and nothing else.
  template <class... Args, class... Given>
  void guarded(void (Connection::*member)(Args...), Given... given) noexcept {
    try {
      if (state_ != State::closed) (this->*member)(given...);
    } catch (const std::exception& e) {
      fail(e.what());
    }
  }
  void drain();      // the server is stopping: close when idle, else after the reply
  void shut_down();  // close now

  Address& address() const { return *place_.address(); }  // REQUIRES it is not closed

  size_t index = 0;  // in the io thread's list

 private:
  using error_code = boost::system::error_code;
  // reading: between requests or inside one. handling: a reply is under way. lingering: the last answer is out, the
  // client gets a moment to read it (closing with unread input would make the kernel throw the answer away).
  enum class State : uint8_t { reading, handling, lingering, closed };

  // What took a client too long. idle: to begin a request, or TLS's greeting.
  enum class Late : uint8_t { no, idle, head, body_stopped, body_slow, answer, lingering };

  int64_t patience_ns() const;
  void want_turn(bool again);
  void arm_read();
  void arm_write();
  void read_some();
  void on_cipher(std::string_view bytes);
  void on_bytes(std::string_view bytes);
  size_t read_room();
  void keep_ahead(std::string_view bytes);
  void process_ahead();
  void on_eof();
  size_t process(std::string_view bytes);
  bool take_some(std::string_view& bytes);
  void after_feed(bool more);
  void judge();
  void note_body();
  void dispatch();
  void append_output(StreamOutput& output);
  void append_reply_head(const StreamOutput& output);
  void flush_out();
  void note_queued(int64_t now_ns, size_t n_sent);
  void say_end();
  void finish_reply();
  void refuse(const HttpError& error, HttpHeaders extra = {});
  void refuse_for_room();
  void fail(const char* what) noexcept;
  bool say_no_memory() noexcept;
  void drop_input();
  void begin_lingering();
  void linger();
  Late how_late() const;
  Late how_late_reading(int64_t now_ns) const;
  bool has_unread() const;
  void hold_to_time(bool may_look);
  void end_late(Late late);
  bool peer_is_gone() const;
  void cut(CloseReason reason);  // with a reset, so that the client cannot take the answer for complete
  void close(CloseReason reason);
  const HttpLimits& limits() const { return io_.shared().limits; }

  IoThread& io_;
  boost::asio::ip::tcp::socket socket_;
  Place place_;
  const std::string peer_;
  RequestParser parser_;
  State state_ = State::reading;
  OpSlot read_slot_, write_slot_;
  bool reading_ = false, writing_ = false;    // a wait is under way
  bool readable_ = false, writable_ = false;  // for the next turn
  bool processing_ = false;                   // inside process(): do not enter it again
  bool judged_ = false;                       // verdict_ is the handler's on this request's head
  bool deaf_ = false;                         // what follows the head that is being answered is nobody's
  bool peer_eof_ = false, sent_fin_ = false, said_end_ = false;
  bool paused_ = false;         // no room to read ahead: the tick looks again
  bool looks_ = false;          // its time is up, and after its turn it is judged
  std::string in_;              // bytes that came ahead of their turn
  size_t in_at_ = 0;            // of in_, already used
  ByteLease received_, ahead_;  // for what parser_ holds, for in_
  std::unique_ptr<TlsSession> tls_;
  Outbox outbox_;

  Verdict verdict_;  // until the request is whole

  // The current reply.
  std::shared_ptr<Stream> stream_;
  bool keep_alive_ = true, head_request_ = false, no_body_ = false, chunked_ = false, complete_ = false;
  bool answered_ = false;  // the head of an answer has been put into the outbox
  int version_ = 11;

  // When its turn was asked for, of the thread's time; how long it has waited for turns in all. By these patience_ns().
  int64_t waits_since_ = 0, waited_ns_ = 0;
  // By patience_ns().
  int64_t idle_since_ = 0, head_since_ = 0, body_last_ = 0, body_until_ = 0;
  int64_t write_last_ = 0, stall_until_ = 0, linger_since_ = 0;
  int64_t body_seen_ = 0;                    // bytes of the body, by the last look
  int64_t linger_begun_ = 0, n_thrown_ = 0;  // of the thread's time; bytes that came since, for nobody
};

}  // namespace quire
