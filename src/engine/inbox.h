// What other threads ask of the engine: submissions, in order of arrival, and cancellations, which need no memory: each
// sequence brings the place of its own along. The engine thread drains it once per step and sleeps on it when there is
// nothing else to do. Ids are given out under the lock, so their order is the order of arrival and a replay of what was
// drained gives the same ones. Any thread; drain, next_cancelled, leave and wait: engine thread.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/sequence.h"

namespace quire {

class Inbox {
 public:
  // Gives the sequence its id. 0, and the sequence is gone, when the inbox is closed: nobody would drain it any more.
  SeqId submit(std::unique_ptr<Sequence> seq) {
    SeqId id = 0;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return 0;
      if (live_.size() == live_.capacity()) live_.reserve(std::max<size_t>(16, 2 * live_.size()));
      id = seq->id = ++last_id_;
      arrivals_.push_back(std::move(seq));
      live_.push_back({id});
    }
    ready_.notify_one();
    return id;
  }
  // Of a sequence that has left, or was never here: nothing. Takes no memory.
  void cancel(SeqId id) {
    {
      const std::lock_guard lock(mutex_);
      Live* const seq = find(id);
      if (closed_ || seq == nullptr || seq->n_cancel > 0) return;
      seq->n_cancel = ++n_cancels_;
      ++n_pending_cancels_;
    }
    ready_.notify_one();
  }
  // REQUIRES `out` to be empty; its room is reused.
  void drain(std::vector<std::unique_ptr<Sequence>>& out) {
    const std::lock_guard lock(mutex_);
    std::swap(out, arrivals_);
    drained_id_ = last_id_;
  }
  // The first to be cancelled of those that were drained and have not left; 0: none.
  SeqId next_cancelled() {
    const std::lock_guard lock(mutex_);
    const Live* first = nullptr;
    for (size_t i = 0; n_pending_cancels_ > 0 && i < live_.size(); ++i) {
      const Live& seq = live_[i];
      if (seq.n_cancel > 0 && seq.id <= drained_id_ && (first == nullptr || seq.n_cancel < first->n_cancel))
        first = &seq;
    }
    return first == nullptr ? 0 : first->id;
  }
  // The sequence is over: it cannot be cancelled any more.
  void leave(SeqId id) {
    const std::lock_guard lock(mutex_);
    Live* const seq = find(id);
    if (seq == nullptr) return;
    n_pending_cancels_ -= seq->n_cancel > 0 ? 1 : 0;
    live_.erase(live_.begin() + (seq - live_.data()));
  }
  // Until there is something, or wake() or close() was called.
  void wait() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return something(); });
    woken_ = false;
  }
  // The same for no longer than that.
  void wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, time, [this] { return something(); });
    woken_ = false;
  }
  // Whoever waits, or waits next, goes on.
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    ready_.notify_one();
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }
  bool closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  struct Live {
    SeqId id = 0;
    int64_t n_cancel = 0;  // the so many-th cancellation is its own; 0: none
  };
  bool something() const { return closed_ || woken_ || !arrivals_.empty() || n_pending_cancels_ > 0; }
  // Null: it is not here.
  Live* find(SeqId id) {
    const auto at = std::lower_bound(live_.begin(), live_.end(), id, [](const Live& l, SeqId i) { return l.id < i; });
    return at != live_.end() && at->id == id ? &*at : nullptr;
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<std::unique_ptr<Sequence>> arrivals_;
  std::vector<Live> live_;  // by id, from submit to leave
  SeqId last_id_ = 0, drained_id_ = 0;
  int64_t n_cancels_ = 0, n_pending_cancels_ = 0;
  bool closed_ = false, woken_ = false;
};

}  // namespace quire
