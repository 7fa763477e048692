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
#include "http/server.h"
#include "serve/api_error.h"
#include "serve/limits.h"

namespace quire {

inline constexpr std::string_view kResumableHeader = "x-quire-resumable";
inline constexpr std::string_view kStreamHeader = "x-quire-stream";

// Any thread may call what Reply has; the producer runs in one thread at a time.
class ResumableStream final : public Reply, public std::enable_shared_from_this<ResumableStream> {
 public:
  // `kept_bytes` of events are remembered. Nothing changes for an answer that is no event stream.
  ResumableStream(std::string id, uint64_t tenant, ReplyPtr first, int64_t kept_bytes);
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

  const std::string& id() const { return id_; }
  uint64_t tenant() const { return tenant_; }
  // Goes on with the event behind number `after` on `next`, from whatever connection had it. Refuses where that event
  // is not remembered any more, or does not exist yet.
  std::optional<HttpError> resume(int64_t after, const ReplyPtr& next);
  bool detached() const;  // a stream that no connection has
  // Nobody may come back any more: once no connection has it, which may be now, the session hears that its client is
  // gone.
  void give_up();

 private:
  ReplyPtr current() const;
  void attach(const ReplyPtr& next);
  void on_inner_close(int64_t generation, CloseReason reason);
  void run(int64_t generation);
  void tell_closed(CloseReason reason);
  std::string number(std::string_view bytes);

  const std::string id_;
  const uint64_t tenant_;
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

// The streams of a service by id, and when to give up those that nobody came back for: looked at whenever one is added
// or taken up. Any thread.
class StreamTable {
 public:
  StreamTable(Clock& clock, const ServeLimits& limits)
      : clock_(clock), keep_ns_(limits.resumable_s * 1'000'000'000), max_streams_(limits.n_resumable) {}

  void add(std::shared_ptr<ResumableStream> stream);
  std::shared_ptr<ResumableStream> find(std::string_view id, uint64_t tenant);  // null where there is none
  void give_up_all();                                                           // and whatever is added from then on

 private:
  struct Entry {
    std::shared_ptr<ResumableStream> stream;
    int64_t until_ns = 0;  // 0: has a connection
  };
  std::list<std::shared_ptr<ResumableStream>> take_old();

  Clock& clock_;
  const int64_t keep_ns_;
  const int64_t max_streams_;
  std::mutex mu_;
  std::list<Entry> entries_;  // the oldest first
  bool closing_ = false;
};

}  // namespace quire
