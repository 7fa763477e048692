// Memory that clients make the server hold, counted by capacity: one budget for all connections of a server, an account
// in it for each address, and a lease for each thing that is held. The one idea: an address may have as much as is left
// over. Alone it gets half of the budget, of two each a third, and there is always something for the next one; nobody
// has to be told how many there will be. The first bytes of each lease are free, so that what is small is served even
// when others have used up everything. Any thread, but a lease is one owner's.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace quire {

inline constexpr int64_t kFreeBytes = 4 << 10;  // of each lease

class ByteBudget {
 public:
  explicit ByteBudget(int64_t limit) : limit_(limit) {}
  int64_t limit() const { return limit_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  friend class ByteAccount;
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// What one address has of a budget. Shared by its leases, which may outlive its connections.
class ByteAccount {
 public:
  explicit ByteAccount(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  // Takes `n` more. False: that is more than what would be left, and nothing was taken.
  bool take(int64_t n) {
    const int64_t all = add(budget_->used_, n), own = add(used_, n);
    if (all + own <= budget_->limit_) return true;
    give(n);
    return false;
  }
  void take_anyway(int64_t n) {
    add(budget_->used_, n);
    add(used_, n);
  }
  void give(int64_t n) { take_anyway(-n); }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  const ByteBudget& budget() const { return *budget_; }

 private:
  static int64_t add(std::atomic<int64_t>& to, int64_t n) { return to.fetch_add(n, std::memory_order_relaxed) + n; }
  const std::shared_ptr<ByteBudget> budget_;
  std::atomic<int64_t> used_{0};
};

class ByteLease {
 public:
  ByteLease() = default;  // counts nothing
  explicit ByteLease(std::shared_ptr<ByteAccount> account) : account_(std::move(account)) {}
  ByteLease(ByteLease&& other) noexcept : account_(std::move(other.account_)), taken_(std::exchange(other.taken_, 0)) {}
  ByteLease& operator=(ByteLease&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(taken_, other.taken_);
    return *this;
  }
  ~ByteLease() {
    if (account_ != nullptr) account_->give(taken_);
  }

  // What it is for holds `bytes` from now on. False, and nothing changes: there is no room; never when it holds less
  // than before.
  bool resize(int64_t bytes) {
    if (account_ == nullptr) return true;
    const int64_t more = counted(bytes) - taken_;
    if (more > 0 && !account_->take(more)) return false;
    if (more < 0) account_->give(-more);
    taken_ += more;
    return true;
  }
  // The same for what is already there and may not be refused.
  void set(int64_t bytes) {
    if (account_ == nullptr) return;
    account_->take_anyway(counted(bytes) - taken_);
    taken_ = counted(bytes);
  }

 private:
  static int64_t counted(int64_t bytes) { return std::max<int64_t>(0, bytes - kFreeBytes); }
  std::shared_ptr<ByteAccount> account_;
  int64_t taken_ = 0;
};

// The capacity that a string of these counted bytes gets to take `more`, where it has to grow: twice what it had, or
// `most` at once where that is more than half of it, so that the last copy is not from a string of nearly that size.
inline size_t grown_capacity(const std::string& text, size_t more, size_t most) {
  const size_t needed = text.size() + more, twice = 2 * text.capacity();
  if (needed <= text.capacity()) return text.capacity();
  return std::max(needed, twice > most / 2 && text.capacity() > kFreeBytes ? most : std::min(twice, most));
}
// Exactly that, where reserve() may take more. While it grows both are there.
inline void grow_to(std::string& text, size_t capacity) {
  if (capacity <= text.capacity()) return;
  std::string grown;
  grown.reserve(capacity);
  grown += text;
  text.swap(grown);
}

}  // namespace quire
