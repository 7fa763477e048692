// What is pinned, and for whom, as other threads may ask and say: the blocks are the engine thread's (kv/pins.h). A pin
// that somebody gives up is gone from here at once; its blocks follow before the engine's next step. Any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace quire {

// A pin as its owner sees it.
struct PinView {
  uint64_t id = 0, owner = 0;
  int n_tokens = 0;   // whole blocks; of a learned prefix its virtual tokens too
  int64_t bytes = 0;  // of its blocks, which other pins may share
};

class PinBook {
 public:
  // In the order in which they came.
  std::vector<PinView> of(uint64_t owner) const {
    const std::lock_guard lock(mutex_);
    std::vector<PinView> out;
    for (const PinView& pin : pins_)
      if (pin.owner == owner) out.push_back(pin);
    return out;
  }
  int n_of(uint64_t owner) const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::ranges::count(pins_, owner, &PinView::owner));
  }
  // False, with nothing changed: this owner has no such pin.
  bool remove(uint64_t id, uint64_t owner) {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(pins_, [&](const PinView& p) { return p.id == id && p.owner == owner; });
    if (at == pins_.end()) return false;
    removed_.push_back(id);
    pins_.erase(at);
    return true;
  }

  // --- engine thread ---
  void add(const PinView& pin) {
    const std::lock_guard lock(mutex_);
    pins_.push_back(pin);
  }
  // The ids of those that were removed since the last call.
  std::vector<uint64_t> take_removed() {
    const std::lock_guard lock(mutex_);
    return std::exchange(removed_, {});
  }

 private:
  mutable std::mutex mutex_;
  std::vector<PinView> pins_;  // as many as the engine's limit says
  std::vector<uint64_t> removed_;
};

}  // namespace quire
