// What a sequence waits for that tiers say or bring. Its end, whatever the reason, tells the tier that nobody wants the
// rest. Engine thread only.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "kv/fetch.h"
#include "kv/tiers/tier_chain.h"

namespace quire {

struct Load {
  Load() = default;
  ~Load() {
    if (read != nullptr) read->abandon();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  std::unique_ptr<TierSearch> search;  // while it is not known yet what there is
  int first = 0;                       // block of the path where this begins
  TierPath path;                       // what there is, and who brings it
  Fetch run;                           // empty: another sequence's load brings the next block
  std::shared_ptr<TierRead> read;      // null likewise
  int run_first = 0;                   // block of the path where the run begins
  std::vector<int64_t> copies;         // into the first blocks of the run, by the copier's numbers
  int n_arrived = 0;                   // blocks that it brought
  TokensByTier arrived{};              // their tokens
  int64_t give_up_ns = 0;              // from then on it is late
};

}  // namespace quire
