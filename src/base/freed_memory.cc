#include "base/freed_memory.h"

#include <malloc.h>

#include <algorithm>

#include "base/process_stats.h"

namespace quire {
namespace {

constexpr int kLargeBlock = 128 << 10;

}  // namespace

// What was given back still counts as free until it is used again, and then the process grows: so either has to have
// become more, than the last time or than at any time since.
bool FreedPages::give_back() {
  const auto free = static_cast<int64_t>(::mallinfo2().fordblks);
  const int64_t size = resident_bytes();
  free_ = std::min(free_, free);
  resident_ = std::min(resident_, size);
  if (free < least_ || (free < free_ + least_ && size < resident_ + least_)) return false;
  ::malloc_trim(0);
  free_ = static_cast<int64_t>(::mallinfo2().fordblks);
  resident_ = resident_bytes();
  return true;
}

FreedMemory::FreedMemory() : sweeper_(kEvery, [this] { pages_.give_back(); }) {
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
}

}  // namespace quire
