// Memory of repacked weights: a few large slabs on 2 MiB pages instead of a mapping per tensor, so that small tensors
// do not waste a page each. Every slab has a region for each memory node, whole pages: a page lies on the node of the
// thread that writes it first. Freed all at once with the backend. Loading thread only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/buffer.h"

namespace quire {

class WeightStore {
 public:
  explicit WeightStore(int n_nodes) : n_nodes_(n_nodes) {}

  struct Room {
    std::byte* data = nullptr;  // node 0's; node k's is k · stride bytes further
    int64_t stride = 0;
  };
  // `bytes` in each node's region; 64-byte aligned, zero-filled. Code::exhausted when the system gives no memory.
  Result<Room> allocate(int64_t bytes) {
    constexpr int64_t kSlab = int64_t{64} << 20, kPage = int64_t{2} << 20;
    const int64_t wanted = (bytes + 63) / 64 * 64;
    if (used_ + wanted > region_) {
      const int64_t region = std::max(wanted, kSlab);
      region_ = n_nodes_ == 1 ? region : (region + kPage - 1) / kPage * kPage;
      used_ = 0;
      QR_TRY(Buffer slab, Buffer::allocate(n_nodes_ * region_));
      slabs_.push_back(std::move(slab));
    }
    const Room out{slabs_.back().data() + used_, region_};
    used_ += wanted;
    total_ += n_nodes_ * wanted;
    return out;
  }
  // For the line at start: what share of this lies on 2 MiB pages now, and how they were come by (the worst of the
  // slabs); empty while nothing was allocated.
  std::string describe_pages() const {
    if (total_ == 0) return "";
    PageKind kind = PageKind::huge_explicit;
    for (const Buffer& slab : slabs_) kind = std::max(kind, slab.page_kind());
    return pages_text(total_, Buffer::huge_bytes(slabs_), kind);
  }
  // Of `bytes`, `huge` (the ends of slabs included) on 2 MiB pages; below nine tenths it is said how many.
  static std::string pages_text(int64_t bytes, int64_t huge, PageKind kind) {
    const std::string how = " (" + std::string(page_kind_name(kind)) + ")";
    if (huge >= bytes / 10 * 9) return "weights on 2 MiB pages" + how;
    return "only " + std::to_string(huge * 100 / bytes) + " % of the weights on 2 MiB pages" + how;
  }

 private:
  int n_nodes_;
  std::vector<Buffer> slabs_;
  int64_t region_ = 0;  // bytes of each of the last slab's
  int64_t used_ = 0;    // of each
  int64_t total_ = 0;
};

}  // namespace quire
