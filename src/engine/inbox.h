// What other threads ask of the engine: submissions and cancellations, in order of arrival. The engine thread drains it
// once per step and sleeps on it when there is nothing else to do. Ids are given out under the lock, so their order is
// the order of arrival and a replay of what was drained gives the same ones. Any thread; drain and wait: engine thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "engine/sequence.h"

namespace quire {

struct Message {
  std::unique_ptr<Sequence> submit;  // null: a cancellation of `cancel`
  SeqId cancel = 0;
};

class Inbox {
 public:
  // Gives the sequence its id. 0, and the sequence is gone, when the inbox is closed: nobody would drain it any more.
  SeqId submit(std::unique_ptr<Sequence> seq) {
    SeqId id = 0;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return 0;
      id = seq->id = ++last_id_;
      messages_.push_back({std::move(seq), 0});
    }
    ready_.notify_one();
    return id;
  }
  // Throws nothing: where there is no memory for it, the sequence goes to its own end.
  void cancel(SeqId id) {
    try {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      messages_.push_back({nullptr, id});
    } catch (const std::bad_alloc&) {
      return;
    }
    ready_.notify_one();
  }
  // REQUIRES `out` to be empty; its room is reused.
  void drain(std::vector<Message>& out) {
    const std::lock_guard lock(mutex_);
    std::swap(out, messages_);
  }
  // Until there is a message, or wake() or close() was called.
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
  bool something() const { return closed_ || woken_ || !messages_.empty(); }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Message> messages_;
  SeqId last_id_ = 0;
  bool closed_ = false, woken_ = false;
};

}  // namespace quire
