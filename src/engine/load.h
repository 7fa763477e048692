// What a sequence waits for that a tier brings. Its end, whatever the reason, tells the tier that nobody wants the
// rest. Engine thread only.
#pragma once
#include <cstdint>
#include <memory>

#include "kv/fetch.h"
#include "kv/tiers/tier.h"

namespace quire {

struct Load {
  Load() = default;
  ~Load() {
    if (read != nullptr) read->abandon();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  Fetch run;                       // empty: another sequence's load brings the next block
  std::shared_ptr<TierRead> read;  // null likewise
  int n_arrived = 0;               // blocks that it brought
  int64_t give_up_ns = 0;          // from then on it is late
};

}  // namespace quire
