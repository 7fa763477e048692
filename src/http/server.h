// The HTTP/1.1 server: bytes on sockets, no knowledge of models. One event loop per io thread; a connection lives on
// one io thread for life. The one idea: whoever produces tokens never touches a socket. It marks streams dirty (notify
// or write), and once per engine step flush() wakes each io thread that has dirty streams, at most once; that thread
// sweeps them with non-blocking writes. Boost.Asio and Beast stay behind this header. Contract and limits:
// docs/http.md.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/limits.h"
#include "http/message.h"
#include "http/reply.h"

namespace quire {

class Metrics;

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address or a name
  int port = 0;                    // 0: any free one, see Server::port()
  int n_io_threads = 1;
  std::string tls_certificate, tls_key;  // PEM files, see http/tls.h; both empty: plain HTTP
  HttpLimits limits;
  Metrics* metrics = nullptr;  // outlives the server; nullptr: not counted
};

// What becomes of a request, as decided on its head: before a byte of its body is kept, or 100 Continue is said.
struct Verdict {
  // Called once, on the connection's io thread: must not block. Answer now, or keep `reply` and answer later from any
  // thread. Calls made here and in producers need no flush(). An exception becomes a 500. Destroyed uncalled when the
  // client leaves before its body is complete: what was reserved for the request goes with it.
  using Answer = std::function<void(HttpRequest&& request, ReplyPtr reply)>;
  Answer answer;
  // False: `answer` gets the head at once. If a body was to follow, nobody reads it and the connection ends.
  bool reads_body = true;
};

class Handler {
 public:
  virtual ~Handler() = default;
  // On the connection's io thread, once per request: must not block. `head` has no body. An exception becomes a 500.
  virtual Verdict judge(const HttpRequest& head) = 0;
};

class Server {
 public:
  // Binds, listens and starts the io threads. Fails (Code::io) naming host and port: in use, no permission, no such
  // host; or a file of TLS; (Code::invalid) limits that do not fit together. `handler` outlives the server. SIGPIPE
  // never reaches the process through these sockets.
  static Result<std::unique_ptr<Server>> start(const ServerOptions&, Handler& handler);
  virtual ~Server() = default;  // stop(0) first if that was not done

  virtual int port() const = 0;
  virtual std::string url() const = 0;  // "http://127.0.0.1:8080"
  // Once per engine step: wakes each io thread that has dirty replies, at most once. Any thread; cheap when none has.
  virtual void flush() = 0;
  // Runs `fn` soon on one of the io threads, in turn; dropped if the server has stopped. Any thread.
  virtual void post(std::function<void()> fn) = 0;
  // Stops accepting, closes idle connections, lets running replies finish for `drain_ms`, then closes the rest with
  // CloseReason::shutdown, and joins the io threads. Blocks; the producer must go on meanwhile. Not from an io thread.
  // A second call from another thread with a shorter drain cuts the first one short.
  virtual void stop(int drain_ms) = 0;
  virtual int n_connections() const = 0;
};

}  // namespace quire
