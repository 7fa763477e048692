// The one implementation of Reply: the state of an answer between the threads that make it and the connection that
// sends it. The threads append to an inbox under a short lock; the connection takes what is there in the sweep.
// Owner of each field is said beside it.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "http/byte_budget.h"
#include "http/io_queue.h"
#include "http/server.h"

namespace quire {

class Connection;

// What the connection is told in one sweep.
struct StreamOutput {
  bool head = false;   // status and headers are set; comes once
  bool whole = false;  // send(): `body` is the whole body
  int status = 0;
  HttpHeaders headers;
  std::string body;       // bytes since the last take
  bool complete = false;  // nothing follows
  bool aborted = false;
};

class Stream final : public Reply, public Dirty, public std::enable_shared_from_this<Stream> {
 public:
  // `unsent` (may be null): what the bytes that wait are counted in.
  Stream(std::shared_ptr<IoQueue> io, int64_t out_bytes, std::shared_ptr<ByteAccount> unsent = nullptr)
      : io_(std::move(io)), out_bytes_(out_bytes), account_(std::move(unsent)), lease_(account_) {}

  // What the handler gets: when the last copy goes, an incomplete answer is abandoned.
  static ReplyPtr handle_for(const std::shared_ptr<Stream>& stream);

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
  void flush() override { io_->wake(); }
  bool closed() const override { return closed_.load(std::memory_order_acquire); }
  int64_t unsent_bytes() const override;

  // --- the connection, io thread only ---
  // Runs the producer if it was notified, then moves out what has gathered. A producer that throws aborts the stream.
  void take(StreamOutput& out);
  // It was taken off the list of dirty ones: the take() that follows is for that. One without is between, and leaves it
  // where it is.
  void popped() { popped_ = true; }
  // How many bytes the connection holds for this stream, and in how much memory; a writer that was refused is called
  // again below half.
  void set_queued(int64_t bytes, int64_t held_bytes);
  // Its client reads slower than it writes, or there is no room for its bytes beside those of others.
  bool stalled() const { return queued_.load(std::memory_order_relaxed) >= out_bytes_ || waits_for_room_.load(); }
  // Calls a writer again that found no room beside others.
  void retry();
  // Over: the later of two calls is a no-op. Runs on_close's callback; what that throws is logged.
  void close(CloseReason reason) noexcept;
  // The connection to sweep, nullptr once it is gone. Io thread only.
  Connection* connection = nullptr;

 private:
  enum class Phase : uint8_t { open, streaming, complete, aborted };
  void mark_dirty();
  HttpError no_room(size_t n_bytes) const;
  void abandon() noexcept;
  void run_producer();

  const std::shared_ptr<IoQueue> io_;
  const int64_t out_bytes_;
  const std::shared_ptr<ByteAccount> account_;
  std::atomic<bool> dirty_{false}, notified_{false}, closed_{false};
  std::atomic<bool> waits_for_room_{false};  // a write() found none in the budget
  std::atomic<int64_t> queued_{0};           // written by the connection

  mutable std::mutex mu_;  // guards what follows, down to the io thread's
  Phase phase_ = Phase::open;
  bool refused_ = false;     // a write() found no room in out_bytes
  ByteLease lease_;          // for the inbox and what the connection holds
  int64_t queued_held_ = 0;  // of that, the connection's
  HttpHeaders added_;        // for the head
  StreamOutput inbox_;
  Producer next_producer_;
  Closed on_close_;
  CloseReason reason_ = CloseReason::finished;

  // Io thread.
  Producer producer_;
  bool popped_ = false;
};

}  // namespace quire
