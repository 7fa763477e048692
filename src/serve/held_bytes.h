// Bytes that answers hold in memory before their clients have them: counted for each request and for all together, each
// with a bound. A request's first few cost nothing of what is everybody's, so small answers go on when large ones have
// taken all. Any thread; taking and giving wait for nobody but, once in a while, for another of the same request.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace quire {

// Of all requests.
class AnswerBudget {
 public:
  explicit AnswerBudget(int64_t max_bytes) : max_bytes_(max_bytes) {}

  bool full() const { return held() >= max_bytes_; }
  int64_t held() const { return held_.load(std::memory_order_relaxed); }
  int64_t max_bytes() const { return max_bytes_; }
  bool take(int64_t n) {
    if (held_.fetch_add(n, std::memory_order_relaxed) + n <= max_bytes_) return true;
    give(n);
    return false;
  }
  void give(int64_t n) { held_.fetch_sub(n, std::memory_order_relaxed); }

 private:
  const int64_t max_bytes_;
  std::atomic<int64_t> held_{0};
};

// Of one request. What it took of all goes back with its end.
class HeldBytes {
 public:
  static constexpr int64_t kFreeBytes = 64 << 10;  // of each request, and what it takes of all at a time

  enum class Taken : uint8_t { yes, own_full, all_full };

  HeldBytes(std::shared_ptr<AnswerBudget> all, int64_t max_bytes) : all_(std::move(all)), max_bytes_(max_bytes) {}
  ~HeldBytes() { all_->give(granted_.load() - kFreeBytes); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  // Nothing is taken unless the answer is yes.
  Taken take(int64_t n) {
    const int64_t now = held_.fetch_add(n, std::memory_order_relaxed) + n;
    if (now <= max_bytes_ && (now <= granted_.load(std::memory_order_relaxed) || grow(now))) return Taken::yes;
    give(n);
    return now > max_bytes_ ? Taken::own_full : Taken::all_full;
  }
  void give(int64_t n) { held_.fetch_sub(n, std::memory_order_relaxed); }
  int64_t held() const { return held_.load(std::memory_order_relaxed); }
  int64_t max_bytes() const { return max_bytes_; }

 private:
  bool grow(int64_t wanted) {
    const std::lock_guard lock(mu_);
    while (granted_.load(std::memory_order_relaxed) < wanted) {
      if (!all_->take(kFreeBytes)) return false;
      granted_.fetch_add(kFreeBytes, std::memory_order_relaxed);
    }
    return true;
  }

  const std::shared_ptr<AnswerBudget> all_;
  const int64_t max_bytes_;
  std::atomic<int64_t> held_{0}, granted_{kFreeBytes};
  std::mutex mu_;
};

}  // namespace quire
