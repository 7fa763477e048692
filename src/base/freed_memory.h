// What clients sent goes back to the system when they have left. Left to itself the allocator keeps what was freed: of
// large blocks, because it moves the bound from which they are the system's own up with the first of them that is
// freed; of small ones, because a page that lies below one still in use is never given back. While this lives large
// blocks are always the system's own, and a thread gives back whole pages of what was freed, every few seconds and only
// when that has become more. A process has one; main thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/sweeper.h"

namespace quire {

// Gives pages back where `least` bytes are free in the allocator, and so much more than the last time or the process so
// much larger. One thread.
class FreedPages {
 public:
  explicit FreedPages(int64_t least) : least_(least) {}
  // Whether it did. Other threads that allocate may wait for it, some milliseconds for each 100 MiB.
  bool give_back();

 private:
  const int64_t least_;
  int64_t free_ = 0, resident_ = 0;  // the last time, or the least since
};

class FreedMemory {
 public:
  static constexpr std::chrono::milliseconds kEvery{5000};
  static constexpr int64_t kLeast = 8 << 20;

  FreedMemory();

 private:
  FreedPages pages_{kLeast};
  Sweeper sweeper_;
};

}  // namespace quire
