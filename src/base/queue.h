// A bounded queue between threads: many producers, many consumers, blocking pop, and a close that lets the consumers
// finish what is in it. One mutex; made for hand-overs of requests, not for tokens. Any thread.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace quire {

template <class T>
class Queue {
 public:
  explicit Queue(size_t capacity) : capacity_(capacity) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // False when full or closed; `value` is then left as it was. Never blocks longer than the lock.
  bool try_push(T&& value) {
    {
      std::lock_guard lock(mu_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(value));
    }
    not_empty_.notify_one();
    return true;
  }
  // Waits for room. False when closed; `value` is then left as it was.
  bool push(T&& value) {
    {
      std::unique_lock lock(mu_);
      not_full_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
      if (closed_) return false;
      items_.push_back(std::move(value));
    }
    not_empty_.notify_one();
    return true;
  }
  // Waits for an item. nullopt only when closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mu_);
    not_empty_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take(lock);
  }
  // nullopt when empty.
  std::optional<T> try_pop() {
    std::unique_lock lock(mu_);
    return take(lock);
  }
  // From now on nothing enters; waiting threads wake up. May be called more than once.
  void close() {
    {
      std::lock_guard lock(mu_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }
  size_t size() const {
    std::lock_guard lock(mu_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  std::optional<T> take(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> out(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    not_full_.notify_one();
    return out;
  }

  const size_t capacity_;
  mutable std::mutex mu_;
  std::condition_variable not_empty_, not_full_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace quire
