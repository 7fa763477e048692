// The answering half of Connection: what a reply has gathered becomes bytes in the outbox, and these go to the kernel,
// a bounded amount a turn.
#include <sys/socket.h>

#include <algorithm>

#include "base/log.h"
#include "base/nanoseconds.h"
#include "http/connection.h"
#include "http/response_head.h"

namespace quire {
namespace {

constexpr size_t kTurnBytes = 256 << 10;  // to one client, before the others of this thread have their turn

// Said when there is no memory to say anything else.
constexpr std::string_view kNoMemory =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: 109\r\n"
    "Connection: close\r\n\r\n"
    "{\"error\":{\"message\":\"the server is out of memory\",\"type\":\"server_error\",\"param\":null,"
    "\"code\":\"out_of_memory\"}}";

constexpr size_t body_bytes(std::string_view answer) { return answer.size() - answer.find("\r\n\r\n") - 4; }
static_assert(body_bytes(kNoMemory) == 109);

}  // namespace

void Connection::sweep(int64_t woken_ns) {
  if (state_ != State::handling) return;
  StreamOutput output;
  stream_->take(output);
  if (output.aborted) return cut(CloseReason::aborted);
  const bool some = output.head || output.complete || !output.body.empty();
  append_output(output);
  complete_ |= output.complete;
  flush_out();
  if (!some || woken_ns == 0 || !outbox_.empty()) return;
  io_.shared().metrics->delivery.observe(static_cast<double>(IoThread::now_ns() - woken_ns) * 1e-9);
}

void Connection::append_reply_head(const StreamOutput& output) {
  no_body_ = head_request_ || output.status == 204 || output.status == 304;
  if (!output.whole && version_ == 10) keep_alive_ = false;  // its end is the connection's
  chunked_ = !output.whole && version_ == 11 && !no_body_;
  ResponseHead head;
  head.status = output.status;
  head.headers = &output.headers;
  head.date = io_.date();
  if (output.whole && output.status != 204 && output.status != 304)
    head.content_length = static_cast<int64_t>(output.body.size());
  head.chunked = chunked_;
  head.close = !keep_alive_;
  head.keep_alive_10 = version_ == 10;
  std::string bytes;
  append_head(bytes, head);
  answered_ = true;
  outbox_.append(bytes);
  io_.shared().metrics->count_response(output.status);
}

void Connection::append_output(StreamOutput& output) {
  if (output.head) append_reply_head(output);
  if (no_body_) return;
  if (!output.body.empty()) {
    ChunkHead buffer;
    if (chunked_) outbox_.append(chunk_head(buffer, output.body.size()));
    outbox_.append(std::move(output.body));
    if (chunked_) outbox_.append(kChunkEnd);
  }
  if (output.complete && chunked_) outbox_.append(kLastChunk);
}

void Connection::flush_out() {
  const int64_t now = patience_ns();
  if (!writing_) write_last_ = now;  // nothing was waiting until now
  size_t n_sent = 0;
  const Outbox::Result result = outbox_.flush(socket_.native_handle(), kTurnBytes, n_sent);
  if (n_sent > 0) write_last_ = now;
  io_.shared().metrics->bytes_out.add(n_sent);
  if (result == Outbox::Result::failed) return close(CloseReason::client_gone);
  if (result == Outbox::Result::blocked || result == Outbox::Result::more) arm_write();
  if (stream_) note_queued(now, n_sent);
  if (!outbox_.empty()) return;
  if (state_ == State::handling && complete_) return finish_reply();
  if (state_ == State::lingering) say_end();
}

// The last answer is with the kernel.
void Connection::say_end() {
  if (tls_ != nullptr && !said_end_) {
    said_end_ = true;
    tls_->close(outbox_.wire());
    return flush_out();
  }
  if (sent_fin_) return;
  sent_fin_ = true;
  error_code ec;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ec);
}

// Each byte that a stalled stream's client takes buys the time that it takes at the least rate, but never more than
// stall_timeout_ms ahead.
void Connection::note_queued(int64_t now_ns, size_t n_sent) {
  stream_->set_queued(outbox_.unsent_bytes(), outbox_.held_bytes());
  const int64_t most = now_ns + int64_t{limits().stall_timeout_ms} * kNsPerMs;
  if (!stream_->stalled())
    stall_until_ = 0;
  else if (stall_until_ == 0)
    stall_until_ = most;
  else
    stall_until_ = std::min(most, stall_until_ + static_cast<int64_t>(n_sent) * kNsPerSecond /
                                                     std::max<int64_t>(1, limits().out_bytes_per_s));
}

void Connection::finish_reply() {
  io_.shared().metrics->count_closed(CloseReason::finished);
  const auto stream = std::move(stream_);
  stream_ = nullptr;
  complete_ = false;
  stall_until_ = 0;
  if (peer_eof_) {
    close(CloseReason::finished);
  } else if (!keep_alive_) {
    linger();
  } else {
    state_ = State::reading;
    idle_since_ = patience_ns();
  }
  stream->close(CloseReason::finished);
  if (state_ == State::reading && !processing_ && !in_.empty()) want_turn(true);
}

// A request that is not answered yet hears why, as long as that needs no memory.
void Connection::fail(const char* what) noexcept {
  io_.shared().metrics->failed.add();
  try {
    log_error(std::string("http: a connection ends, its request could not be served: ") + what);
  } catch (const std::exception&) {  // then without a line
  }
  if (state_ == State::closed) return;
  if (!say_no_memory()) return cut(CloseReason::aborted);
  begin_lingering();
  drop_input();
  error_code ec;
  if (tls_ == nullptr) socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ec);
  arm_read();
  const auto stream = std::move(stream_);
  stream_ = nullptr;
  if (stream == nullptr) return;
  io_.shared().metrics->count_closed(CloseReason::aborted);
  stream->close(CloseReason::aborted);
}

// False: it cannot be said, or something else was said already.
bool Connection::say_no_memory() noexcept {
  const bool asked = state_ == State::handling || (state_ == State::reading && parser_.started());
  if (!asked || answered_ || !outbox_.empty()) return false;
  if (tls_ == nullptr)
    return ::send(socket_.native_handle(), kNoMemory.data(), kNoMemory.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(kNoMemory.size());
  try {
    size_t n_sent = 0;
    outbox_.append(kNoMemory);
    return outbox_.flush(socket_.native_handle(), kTurnBytes, n_sent) == Outbox::Result::all_sent;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace quire
