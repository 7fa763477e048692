// Which worker a session was last at, as several routers know it: a Redis or Valkey between them. The one idea: it is a
// hint. A question has a deadline of milliseconds, nobody waits for a note to be taken, and without the server, or with
// one that is slow or lies, requests go where they would have gone without it. One connection and a thread of its own;
// hiredis formats commands and reads replies, sockets are ours.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/hash128.h"
#include "base/metrics.h"
#include "base/result.h"
#include "http/host_lookup.h"
#include "route/redis_wire.h"

namespace quire {

struct DirectoryOptions {
  std::string host;  // empty: there is none
  int port = 6379;
  std::string password;
  int database = 0;
  int deadline_ms = 5;         // of a question
  int stall_ms = 1'000;        // without a reply that is due: the connection is given up
  int retry_ms = 500;          // before the next connection
  int64_t keep_s = 3'600;      // a note
  size_t most_pending = 4096;  // commands whose replies are due; beyond it questions are not asked, notes not taken
};

// "redis://[:PASSWORD@]HOST[:PORT][/DATABASE]". Fails (Code::invalid) naming what is wrong, never the password.
Result<DirectoryOptions> parse_directory(const std::string& url);

class Directory {
 public:
  using Found = std::function<void(uint64_t worker)>;

  // Connects when it can, for as long as it lives. `metrics` outlives it.
  Directory(DirectoryOptions options, Metrics& metrics);
  ~Directory();  // calls what still waits

  // `found` is called once, by this call or on another thread within the deadline; 0: nobody knows. Any thread; `found`
  // must not block or throw.
  void find(const Hash128& session, const Found& found);
  // A session is at this worker now. Any thread; never waits.
  void note(const Hash128& session, uint64_t worker);
  bool up() const { return up_.load(); }

 private:
  struct Command {
    std::string bytes;
    bool is_setup = false;  // AUTH, SELECT: anything but OK ends the connection
    Found found;            // empty: a note, or it was answered
    int64_t due_ns = 0;     // of `found`
    int64_t sent_ns = 0;
  };

  struct HostAnswer {
    std::vector<HostAddress> found;
    std::string error;
  };

  bool enter(Command&& command);
  void run();
  void wake() const;
  void take_commands();
  void look_up();
  void take_answer();
  void connect(const HostAddress& to);
  void set_up();
  void send_some();
  void read_some();
  bool take_reply();
  void give_up(const std::string& why);
  void answer_late(int64_t now_ns);
  int poll_ms(int64_t now_ns) const;
  void wait();

  const DirectoryOptions options_;
  Counter &questions_, &found_, &late_, &errors_, &dropped_;
  Gauge& up_gauge_;
  int wake_fd_ = -1;
  std::atomic<bool> up_{false}, ending_{false};
  std::mutex mu_;
  std::vector<Command> fresh_;        // guarded by mu_
  std::optional<HostAnswer> answer_;  // to look_up(); guarded by mu_

  // Of the thread.
  int fd_ = -1;
  bool looking_up_ = false, connecting_ = false;
  size_t n_connects_ = 0;
  int64_t retry_at_ns_ = 0;
  std::string out_;
  std::deque<Command> pending_;  // in the order in which replies come
  std::unique_ptr<RedisReader> reader_;
  std::string last_failure_;
  std::optional<HostLookup> lookup_{std::in_place};
  std::thread thread_;  // last: it uses the others
};

}  // namespace quire
