// A bounded queue between threads in which those who put something in take turns: of each the oldest, one after the
// other, so that what one of them piles up is waited for by nobody else. Nobody gets all of its places, however many
// they ask for: a place is refused to whoever has more than kTurnShare times as many as are left. One mutex. Any
// thread.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace quire {

inline constexpr size_t kTurnShare = 8;

// Whether somebody with `n_own` of a queue's places may have one more while `n_free` are left. Who is alone has eight
// ninths of a long queue, and all of one of up to 9 places.
constexpr bool may_have_place(size_t n_own, size_t n_free) { return n_free > 0 && n_own <= kTurnShare * n_free; }

template <class T>
class TurnQueue {
 public:
  explicit TurnQueue(size_t capacity) : capacity_(capacity) {}
  TurnQueue(const TurnQueue&) = delete;
  TurnQueue& operator=(const TurnQueue&) = delete;

  // False when closed, full, or `who` has its share; `value` is then left as it was. Never blocks longer than the lock.
  // May throw std::bad_alloc, with nothing changed.
  bool try_push(uint64_t who, T&& value) {
    {
      const std::lock_guard lock(mu_);
      const auto known = line_of_.find(who);
      const size_t n_own = known == line_of_.end() ? 0 : known->second->items.size();
      if (closed_ || !may_have_place(n_own, capacity_ - size_)) return false;
      if (known != line_of_.end()) {
        known->second->items.push_back(std::move(value));
      } else {
        begin_line(who, std::move(value));
      }
      ++size_;
    }
    not_empty_.notify_one();
    return true;
  }
  // Waits for an item. nullopt only when closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mu_);
    not_empty_.wait(lock, [&] { return closed_ || size_ > 0; });
    if (size_ == 0) return std::nullopt;
    const auto line = lines_.begin();
    std::optional<T> out(std::move(line->items.front()));
    line->items.pop_front();
    --size_;
    if (line->items.empty()) {
      line_of_.erase(line->who);
      lines_.erase(line);
    } else {
      lines_.splice(lines_.end(), lines_, line);
    }
    return out;
  }
  // From now on nothing enters; waiting threads wake up. May be called more than once.
  void close() {
    {
      const std::lock_guard lock(mu_);
      closed_ = true;
    }
    not_empty_.notify_all();
  }
  size_t size() const {
    const std::lock_guard lock(mu_);
    return size_;
  }
  size_t capacity() const { return capacity_; }

 private:
  struct Line {
    uint64_t who;
    std::deque<T> items;  // not empty
  };
  void begin_line(uint64_t who, T&& value) {
    std::list<Line> made;
    made.push_back({who, {}});
    made.front().items.emplace_back();  // the room for it, before anything is changed
    line_of_.emplace(who, made.begin());
    made.front().items.front() = std::move(value);
    lines_.splice(lines_.end(), made);
  }

  const size_t capacity_;
  mutable std::mutex mu_;
  std::condition_variable not_empty_;
  std::list<Line> lines_;  // whose turn it is first
  std::unordered_map<uint64_t, typename std::list<Line>::iterator> line_of_;
  size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace quire
