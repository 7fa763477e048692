// What other threads may touch of an io thread: its list of dirty streams and its list of tasks, under one mutex that
// is held for a push or a swap only, and the wake-up, of which at most one is under way.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace quire {

class Stream;

class IoQueue {
 public:
  using Task = std::function<void()>;
  struct Work {
    std::vector<std::shared_ptr<Stream>> dirty;
    std::vector<Task> tasks;
    int64_t woken_ns = 0;  // the first wake() since there was work, 0: nobody called it yet
    bool empty() const { return dirty.empty() && tasks.empty(); }
    void clear() {
      dirty.clear();
      tasks.clear();
      woken_ns = 0;
    }
  };

  virtual ~IoQueue() = default;

  // Any thread. Nothing is kept once the queue is closed.
  void push(std::shared_ptr<Stream> stream) {
    std::lock_guard lock(mu_);
    if (closed_) return;
    work_.dirty.push_back(std::move(stream));
    has_work_.store(true, std::memory_order_release);
  }
  void push(Task task) {
    std::lock_guard lock(mu_);
    if (closed_) return;
    work_.tasks.push_back(std::move(task));
    has_work_.store(true, std::memory_order_release);
  }
  // Any thread: wakes the io thread if there is work and no wake-up is on its way. The io thread itself needs none, it
  // takes its work after each callback.
  void wake() {
    if (!has_work_.load(std::memory_order_acquire) || on_io_thread()) return;
    if (waking_.exchange(true, std::memory_order_acq_rel)) return;
    {
      std::lock_guard lock(mu_);
      if (!work_.empty() && work_.woken_ns == 0) work_.woken_ns = SystemClock().now_ns();
    }
    post_wake();
  }
  bool on_io_thread() const { return io_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  // Io thread. REQUIRES `into` is empty; its capacity is reused for what comes next.
  void take(Work& into) {
    waking_.store(false, std::memory_order_release);
    std::lock_guard lock(mu_);
    std::swap(into, work_);
    has_work_.store(false, std::memory_order_release);
  }
  bool has_work() const { return has_work_.load(std::memory_order_acquire); }
  // From now on pushes are dropped, so that no stream is kept by a queue that nobody empties.
  void close() {
    Work rest;
    std::lock_guard lock(mu_);
    closed_ = true;
    std::swap(rest, work_);
  }

 protected:
  virtual void post_wake() = 0;  // makes the io thread take its work soon
  void enter_io_thread() { io_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed); }

 private:
  std::mutex mu_;
  Work work_;
  bool closed_ = false;
  std::atomic<bool> has_work_{false}, waking_{false};
  std::atomic<std::thread::id> io_thread_{};
};

}  // namespace quire
