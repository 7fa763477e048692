// Memory of repacked weights: a few large slabs on 2 MiB pages instead of a mapping per tensor, so that small tensors
// do not waste a page each. Freed all at once with the backend. Loading thread only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/buffer.h"

namespace quire {

class WeightStore {
 public:
  // 64-byte aligned, zero-filled. Code::exhausted when the system gives no memory.
  Result<std::byte*> allocate(int64_t bytes) {
    constexpr int64_t kSlab = int64_t{64} << 20;
    const int64_t wanted = (bytes + 63) / 64 * 64;
    if (slabs_.empty() || used_ + wanted > slabs_.back().bytes()) {
      QR_TRY(Buffer slab, Buffer::allocate(std::max(wanted, kSlab)));
      slabs_.push_back(std::move(slab));
      used_ = 0;
    }
    std::byte* out = slabs_.back().data() + used_;
    used_ += wanted;
    total_ += wanted;
    return out;
  }
  // What was asked for.
  int64_t bytes() const { return total_; }
  // What lies on 2 MiB pages now, the ends of slabs included.
  int64_t huge_bytes() const { return Buffer::huge_bytes(slabs_); }

 private:
  std::vector<Buffer> slabs_;
  int64_t used_ = 0;  // of the last slab
  int64_t total_ = 0;
};

}  // namespace quire
