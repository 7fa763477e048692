// The answer to one request, as handlers see it. Contract: docs/http.md.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/message.h"

namespace quire {

// Why a reply is over. `finished`: every byte went to the kernel.
enum class CloseReason { finished, client_gone, stalled, aborted, shutdown };
std::string_view close_reason_name(CloseReason);

// The answer to one request. Shared by the connection and the handler; thread-safe: every call from any thread.
// Exactly one of send() or start_stream() takes effect, the first; what follows on a closed reply is a no-op that
// returns false. When the handler lets go of its last ReplyPtr before the answer is complete, the client gets a 500
// (nothing sent yet) or a cut stream. An interface, so that handlers are tested without sockets.
class Reply {
 public:
  using Closed = std::function<void(CloseReason)>;
  using Producer = std::function<void(Reply&)>;
  virtual ~Reply() = default;

  // A field of the answer's head beside those of send() or start_stream(), which come later. REQUIRES that a head
  // may hold both: a name without controls, a value of a request's field or of ours.
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  // The whole answer; Content-Length, Date and Connection are added. Wakes the io thread itself, no flush() needed. A
  // body for which all_out_bytes have no room becomes a 503 that says so.
  virtual bool send(int status, HttpHeaders headers, std::string body) = 0;
  // Head of a streamed answer: chunked for HTTP/1.1, ended by close for 1.0. Goes out with the next flush().
  virtual bool start_stream(int status, HttpHeaders headers) = 0;
  // Appends to the stream, all or nothing. False: not streaming, closed, out_bytes are already unsent or all_out_bytes
  // of all have no room for it (keep the bytes; the producer is called again when there is). Goes out with the next
  // flush().
  virtual bool write(std::string_view bytes) = 0;
  // The stream is complete. Goes out with the next flush().
  virtual void end() = 0;
  // Cuts the connection now, without a proper end: the client can tell that the answer is incomplete.
  virtual void abort() = 0;

  // `fn` runs on the io thread in the sweep that follows notify(), and again when a full buffer has drained. It pops
  // what the producing thread left for it and calls write(), end() or send(). Released when the reply is over.
  // Neither `fn` nor on_close's may own a ReplyPtr: it would keep the reply from being abandoned.
  virtual void set_producer(Producer fn) = 0;
  // Marks the reply dirty: no system call, one short lock the first time in a step. The sweep follows flush().
  virtual void notify() = 0;
  // `fn` runs exactly once, on the io thread, when the reply is over, also if that was before this call. A client's
  // disconnect or half-close is noticed while nothing is being written, before the head and mid-stream.
  virtual void on_close(Closed fn) = 0;
  // Runs `fn` soon on this connection's io thread, also if the reply is closed; dropped if the server has stopped.
  virtual void post(std::function<void()> fn) = 0;
  // Wakes this connection's io thread at once: for producers that have no steps.
  virtual void flush() = 0;

  virtual bool closed() const = 0;
  virtual int64_t unsent_bytes() const = 0;
};
using ReplyPtr = std::shared_ptr<Reply>;

// JSON error answer in the form of the dialect that `path` belongs to (error_form; OpenAI's by default); `extra`
// headers (Retry-After, Allow) are added.
bool send_error(Reply&, const HttpError&, HttpHeaders extra = {}, std::string_view path = {});

}  // namespace quire
