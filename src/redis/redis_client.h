// A connection to Redis or Valkey that comes and goes. The one idea: nobody waits for it. Commands are written in
// order as the socket takes them, what comes back is told on the client's own thread; a server that is slow, full,
// unreachable or no Redis ends in an answer that says so. hiredis formats commands and reads replies, sockets and TLS
// are ours.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "http/host_lookup.h"
#include "redis/redis_wire.h"

namespace quire {

class TlsSession;
class TlsTrust;

struct RedisOptions {
  std::string host;  // empty: there is none
  int port = 6379;
  bool over_tls = false;
  std::shared_ptr<const TlsTrust> trust;  // over TLS: whose certificate it must have; set by read_redis_tls()
  std::string user, password;             // user empty: the server's own
  int database = 0;
  int stall_ms = 1'000;     // without a reply that is due: the connection is given up
  int retry_ms = 500;       // before the next connection; doubles with each that failed
  int most_retry_ms = 500;  // up to this
  size_t most_pending = 4096;
  size_t most_reply_bytes = kUsualReplyBytes;
  std::string name = "redis";               // in the log, before "at HOST"
  bool quiet = false;                       // nothing is said there
  std::string thread_name = "quire-redis";  // of the thread
};

// "redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]", or rediss:// over TLS. Fails (Code::invalid) naming `what` and
// what is wrong, never the password. Over TLS read_redis_tls() must follow.
Result<RedisOptions> parse_redis_url(const std::string& url, const std::string& what);

// PEM files. Whose certificates are believed, empty: whom this machine trusts; what is shown to a server that asks,
// both empty: nothing.
struct RedisTlsFiles {
  std::string ca, certificate, key;
};
// Reads them. Fails (Code::io, Code::invalid) naming the file, and where files are given without TLS.
Status read_redis_tls(RedisOptions& options, const RedisTlsFiles& files);

class RedisClient {
 public:
  // A reply, or why there is none. Must not block or throw.
  using Answer = std::function<void(const RedisReply& reply)>;
  // On the client's thread, under the same conditions; each may be empty.
  struct Told {
    std::function<void(bool up)> up;
    std::function<void()> error;    // a reply was one, or a connection failed
    std::function<void()> dropped;  // a command, for too many were under way; any thread
  };

  // Connects when it can, for as long as it lives. REQUIRES `options.trust` over TLS.
  RedisClient(RedisOptions options, Told told);
  ~RedisClient();
  // What still waits is answered: lost. Nothing is sent from then on, and nobody is told. Idempotent; no thread of its
  // own; not beside itself.
  void stop();

  // `answer`, which may be empty, is called once. `due_ns` (SystemClock): from then on it is late, 0 for no sooner than
  // the connection is given up; those that are not 0 must not fall from one command to the next. False: there is no
  // connection, or too much is pending, and nothing is called. Who sends bounds the bytes. Any thread; never waits.
  bool send(std::span<const std::string> words, Answer answer, int64_t due_ns);
  bool up() const { return up_.load(); }

 private:
  struct Command {
    std::string bytes;
    bool is_setup = false;  // AUTH, SELECT: anything but OK ends the connection
    Answer answer;          // empty: nobody asked, or it was answered
    int64_t due_ns = 0;     // of `answer`
    int64_t sent_ns = 0;    // all of it was; until then when it was last seen to
  };

  struct HostAnswer {
    std::vector<HostAddress> found;
    std::string error;
  };

  void run();
  void take_turn();
  void wake() const;
  void take_commands();
  bool enter(Command& command);
  void look_up();
  void take_answer();
  void connect(const HostAddress& to);
  void connected();
  void set_up();
  void greet();
  bool unseal(std::string_view bytes, std::string& plain);
  int64_t write_some(std::string_view bytes);
  bool flush();
  void send_some();
  void read_some();
  bool take_reply();
  void give_up(const std::string& why);
  void answer_late(int64_t now_ns);
  int64_t stalls_at_ns() const;
  int poll_ms(int64_t now_ns) const;
  void wait();

  const RedisOptions options_;
  const Told told_;
  int wake_fd_ = -1;
  std::atomic<bool> up_{false}, ending_{false};
  std::mutex mu_;
  std::vector<Command> fresh_;        // guarded by mu_
  std::optional<HostAnswer> answer_;  // to look_up(); guarded by mu_

  // Of the thread.
  int fd_ = -1;
  bool looking_up_ = false, connecting_ = false;  // connecting: agreeing on TLS too
  std::unique_ptr<TlsSession> tls_;               // null: plain, or not connected yet
  std::string wire_;                              // sealed, and not with the kernel yet
  size_t n_connects_ = 0;
  int retry_ms_ = 0;
  int64_t retry_at_ns_ = 0;
  std::deque<Command> pending_;           // in the order in which replies come
  size_t n_sent_ = 0, n_sent_bytes_ = 0;  // of pending_: whole commands, and bytes of the one behind them
  int64_t replied_ns_ = 0;                // when the last reply came
  std::unique_ptr<RedisReader> reader_;
  std::string last_failure_;
  std::optional<HostLookup> lookup_{std::in_place};
  std::thread thread_;  // last: it uses the others
};

}  // namespace quire
