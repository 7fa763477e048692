// The tokens of one sequence on their way from the engine thread to an io thread: a chain of small blocks with one
// writer and one reader, so neither ever waits for the other. Bounded by bytes: a client that reads too slowly makes it
// overflow, which the reader sees and answers by cancelling the sequence; the writer just drops what follows.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/request.h"

namespace quire {

class TokenChannel {
 public:
  explicit TokenChannel(int64_t max_bytes) : max_bytes_(max_bytes), tail_(new Block), head_(tail_) {}
  TokenChannel(const TokenChannel&) = delete;
  TokenChannel& operator=(const TokenChannel&) = delete;
  ~TokenChannel() {
    while (head_ != nullptr) delete std::exchange(head_, head_->next.load(std::memory_order_relaxed));
  }

  // --- engine thread ---
  // False, and nothing from then on, once the reader is more than max_bytes behind.
  bool push(const TokenEvent& event) {
    if (overflowed_.load(std::memory_order_relaxed)) return false;
    const int64_t size = bytes(event);
    if (pushed_bytes_ + size - popped_bytes_.load(std::memory_order_relaxed) > max_bytes_) {
      overflowed_.store(true, std::memory_order_release);
      return false;
    }
    pushed_bytes_ += size;
    if (n_in_tail_ == kPerBlock) {
      auto* block = new Block;
      tail_->next.store(block, std::memory_order_release);
      tail_ = block;
      n_in_tail_ = 0;
    }
    tail_->events[n_in_tail_++] = event;
    tail_->n.store(n_in_tail_, std::memory_order_release);
    return true;
  }

  // --- io thread ---
  bool pop(TokenEvent& out) {
    if (n_read_ == kPerBlock) {
      Block* next = head_->next.load(std::memory_order_acquire);
      if (next == nullptr) return false;
      delete std::exchange(head_, next);
      n_read_ = 0;
    }
    if (n_read_ == head_->n.load(std::memory_order_acquire)) return false;
    out = std::move(head_->events[n_read_++]);
    popped_bytes_.fetch_add(bytes(out), std::memory_order_relaxed);
    return true;
  }
  bool overflowed() const { return overflowed_.load(std::memory_order_acquire); }

 private:
  static constexpr size_t kPerBlock = 16;
  struct Block {
    std::array<TokenEvent, kPerBlock> events;
    std::atomic<size_t> n{0};
    std::atomic<Block*> next{nullptr};
  };
  static int64_t bytes(const TokenEvent& e) {
    return static_cast<int64_t>(sizeof e + e.top.size() * sizeof(TopLogprob));
  }

  const int64_t max_bytes_;
  Block* tail_;  // engine thread
  size_t n_in_tail_ = 0;
  int64_t pushed_bytes_ = 0;
  Block* head_;  // io thread
  size_t n_read_ = 0;
  std::atomic<int64_t> popped_bytes_{0};
  std::atomic<bool> overflowed_{false};
};

}  // namespace quire
