// Streams that outlive their connection: a Reply between a session and the reply of the socket, which numbers the
// events, remembers the last ones, and lets a client that was cut off take up the stream again on a new connection.
// The session notices nothing of it. Asked for with kResumableHeader; the answer's kStreamHeader names the stream.
#pragma once
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/nanoseconds.h"
#include "base/patience.h"
#include "http/server.h"
#include "serve/api_error.h"
#include "serve/asker.h"
#include "serve/limits.h"

namespace quire {

inline constexpr std::string_view kResumableHeader = "x-quire-resumable";
inline constexpr std::string_view kStreamHeader = "x-quire-stream";
inline constexpr std::string_view kStreamSecretHeader = "x-quire-stream-secret";

// What a stream is called, and who may take it up.
struct StreamName {
  std::string id;
  Asker asker;         // who began it
  std::string secret;  // of a stream whose owner is no proof: told with the answer and asked for; empty: none is needed
};

// Any thread may call what Reply has; the producer runs in one thread at a time.
class ResumableStream final : public Reply, public std::enable_shared_from_this<ResumableStream> {
 public:
  // `kept_bytes` of events are remembered. Nothing changes for an answer that is no event stream.
  ResumableStream(StreamName name, ReplyPtr first, int64_t kept_bytes);
  void open();  // once, when a shared_ptr owns it

  void add_header(std::string_view name, std::string_view value) override;
  bool send(int status, HttpHeaders headers, std::string body) override;
  bool start_stream(int status, HttpHeaders headers) override;
  bool write(std::string_view bytes) override;
  void end() override;
  void abort() override;
  void set_producer(Producer fn) override;
  void notify() override;
  void on_close(Closed fn) override;
  void post(std::function<void()> fn) override;
  void flush() override;
  bool closed() const override;
  int64_t unsent_bytes() const override;

  const StreamName& name() const { return name_; }
  // Goes on with the event behind number `after` on `next`, from whatever connection had it. Refuses where that event
  // is not remembered any more, or does not exist yet. Where it throws the stream is detached, and `next` the caller's
  // to answer or to abort.
  std::optional<HttpError> resume(int64_t after, const ReplyPtr& next);
  bool detached() const;  // a stream that no connection has
  bool over() const;      // its events are complete, or there are and will be none
  // Nobody may come back any more: once no connection has it, which may be now, the session hears that its client is
  // gone.
  void give_up();
  // Its client wants no more of it: gives it up, and cuts the connection that has it.
  void cancel();

 private:
  ReplyPtr current() const;
  void attach(const ReplyPtr& next);
  void go_on(const ReplyPtr& next, std::string_view missed, bool over);
  void let_go(const ReplyPtr& next);
  void on_inner_close(int64_t generation, CloseReason reason);
  void run(int64_t generation);
  void tell_closed(CloseReason reason);
  std::string number(std::string_view bytes);

  const StreamName name_;
  const int64_t kept_bytes_;
  std::mutex running_;  // held while the producer runs; taken before mu_

  mutable std::mutex mu_;  // guards what follows
  ReplyPtr inner_;         // null: detached
  int64_t generation_ = 0;
  Producer producer_;
  Closed on_close_;
  bool told_ = false;  // on_close_'s function ran, or will
  bool streams_ = false, complete_ = false, aborted_ = false, given_up_ = false;
  std::deque<std::string> log_;  // numbered events, the oldest first
  int64_t n_events_ = 0, log_bytes_ = 0;
};

// The streams of a service by id, and when to give up those that nobody came back for. What is full makes room at the
// cost of streams of the same tenant that are over, and of no other: one that is under way is never pushed out. Any
// thread.
class StreamTable {
 public:
  static constexpr int64_t kMostBetweenLooks = 2;

  StreamTable(Clock& clock, const ServeLimits& limits)
      : patience_(clock, kMostBetweenLooks * kNsPerSecond),
        keep_ns_(limits.resumable_s * kNsPerSecond),
        max_streams_(limits.n_resumable),
        max_each_(limits.n_resumable_each) {}

  // False where there is no room for it, or no more streams are kept: it is not resumable then.
  bool add(const std::shared_ptr<ResumableStream>& stream);
  // Null where there is none that this one, who knows this secret, may have: its owner, and no page of another origin.
  std::shared_ptr<ResumableStream> find(std::string_view id, const Asker& asker, std::string_view secret);
  void erase(const ResumableStream& stream);
  // Gives up those whose time is up; to be called at least every kMostBetweenLooks seconds: more do not count.
  void expire();
  void give_up_all();  // and keeps no more
  int64_t size() const;

 private:
  struct Entry {
    std::shared_ptr<ResumableStream> stream;
    int64_t until_ns = 0;  // 0: has a connection
  };
  std::list<std::shared_ptr<ResumableStream>> take_old();
  bool has_room(uint64_t tenant);  // REQUIRES mu_

  Patience patience_;  // guarded by mu_
  const int64_t keep_ns_;
  const int64_t max_streams_, max_each_;
  mutable std::mutex mu_;
  std::list<Entry> entries_;  // the oldest first
  bool closing_ = false;
};

}  // namespace quire
