// The tokens of one sequence on their way from the engine thread to an io thread: a chain of small blocks with one
// writer and one reader, so neither ever waits for the other. Bounded by bytes, its own and its request's: a client
// that reads too slowly makes it overflow, which the reader sees and answers by cancelling the sequence; the writer
// just drops what follows. So it does where there is no memory.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

#include "engine/request.h"
#include "serve/held_bytes.h"

namespace quire {

// Why tokens are dropped: the reader is too far behind, the answer is too large to be held, all answers together hold
// too much, there is no memory.
enum class Overflow : uint8_t { none, behind, too_large, all_full, no_memory };

class TokenChannel {
 public:
  // `held` counts what is in it; outlives it.
  TokenChannel(int64_t max_bytes, HeldBytes& held)
      : max_bytes_(max_bytes), held_(held), tail_(new Block), head_(tail_) {}
  TokenChannel(const TokenChannel&) = delete;
  TokenChannel& operator=(const TokenChannel&) = delete;
  ~TokenChannel() {
    while (head_ != nullptr) delete std::exchange(head_, head_->next.load(std::memory_order_relaxed));
  }

  // --- engine thread ---
  // False, and nothing from then on, once the reader is more than max_bytes behind or the request has no room. Throws
  // nothing.
  bool push(const TokenEvent& event) {
    if (overflow() != Overflow::none) return false;
    const int64_t size = bytes(event);
    if (pushed_bytes_ + size - popped_bytes_.load(std::memory_order_relaxed) > max_bytes_)
      return drop(Overflow::behind);
    const auto taken = held_.take(size);
    if (taken != HeldBytes::Taken::yes)
      return drop(taken == HeldBytes::Taken::all_full ? Overflow::all_full : Overflow::behind);
    try {
      append(event);
    } catch (const std::bad_alloc&) {
      held_.give(size);
      return drop(Overflow::no_memory);
    }
    pushed_bytes_ += size;
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
    held_.give(bytes(out));
    return true;
  }
  Overflow overflow() const { return overflow_.load(std::memory_order_acquire); }

 private:
  static constexpr size_t kPerBlock = 16;
  struct Block {
    std::array<TokenEvent, kPerBlock> events;
    std::atomic<size_t> n{0};
    std::atomic<Block*> next{nullptr};
  };
  void append(const TokenEvent& event) {
    if (n_in_tail_ == kPerBlock) {
      auto* block = new Block;
      tail_->next.store(block, std::memory_order_release);
      tail_ = block;
      n_in_tail_ = 0;
    }
    tail_->events[n_in_tail_] = event;
    tail_->n.store(++n_in_tail_, std::memory_order_release);
  }
  bool drop(Overflow why) {
    overflow_.store(why, std::memory_order_release);
    return false;
  }
  static int64_t bytes(const TokenEvent& e) {
    return static_cast<int64_t>(sizeof e + e.top.size() * sizeof(TopLogprob));
  }

  const int64_t max_bytes_;
  HeldBytes& held_;
  Block* tail_;  // engine thread
  size_t n_in_tail_ = 0;
  int64_t pushed_bytes_ = 0;
  Block* head_;  // io thread
  size_t n_read_ = 0;
  std::atomic<int64_t> popped_bytes_{0};
  std::atomic<Overflow> overflow_{Overflow::none};
};

}  // namespace quire
