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

// What can be on an io thread's list of dirty ones. The list is made of its own members, so that nobody who marks one,
// an engine in its step above all, ever needs memory for it.
class Dirty {
 protected:
  ~Dirty() = default;

 private:
  friend class DirtyList;
  std::shared_ptr<Dirty> next_;  // guarded by whoever guards the list
};

class DirtyList {
 public:
  DirtyList() = default;
  DirtyList(DirtyList&& other) noexcept : first_(std::move(other.first_)), last_(std::exchange(other.last_, nullptr)) {}
  DirtyList& operator=(DirtyList&& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(last_, other.last_);
    return *this;
  }
  ~DirtyList() { clear(); }
  bool empty() const { return first_ == nullptr; }
  // REQUIRES it is on no list.
  void push(std::shared_ptr<Dirty> one) {
    Dirty* const last = one.get();
    (last_ != nullptr ? last_->next_ : first_) = std::move(one);
    last_ = last;
  }
  std::shared_ptr<Dirty> pop() {  // the oldest; null: none
    std::shared_ptr<Dirty> one = std::move(first_);
    if (one == nullptr) return one;
    first_ = std::move(one->next_);
    if (first_ == nullptr) last_ = nullptr;
    return one;
  }
  void clear() {
    while (pop() != nullptr) {
    }
  }

 private:
  std::shared_ptr<Dirty> first_;
  Dirty* last_ = nullptr;
};

class IoQueue {
 public:
  using Task = std::function<void()>;
  struct Work {
    DirtyList dirty;
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

  // Any thread. Nothing is kept once the queue is closed. REQUIRES it is not on the list.
  void push(std::shared_ptr<Dirty> one) {
    std::lock_guard lock(mu_);
    if (closed_) return;
    work_.dirty.push(std::move(one));
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
