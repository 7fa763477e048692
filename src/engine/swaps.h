// The second outcome of a preemption. What a sequence has computed goes to the prefix tree, where it is found again as
// long as it lasts. Of a past that is no whole path of blocks that outlasts the pressure (layers that see a window have
// given back what lies before it, layers that keep a state overwrite it) losing one block is losing all of it, so such
// a sequence is copied out of the cache as it is, and back when it runs again: the same bytes, so the same bits. A copy
// takes about as long as one step of its own takes to read them; computing the past again takes a step for every chunk.
// What all copies hold is bounded; beyond that, and without memory, the tree is all there is. Engine thread only.
#pragma once
#include <cstdint>

#include "engine/accounts.h"
#include "engine/sequence.h"

namespace quire {

class Swaps {
 public:
  // Both outlive it. most_bytes 0: nothing is copied.
  Swaps(KvCache& cache, Accounts& accounts, int64_t most_bytes)
      : cache_(cache), accounts_(accounts), most_bytes_(most_bytes) {}

  // Of a sequence that is about to give back what it holds.
  void out(Sequence& seq);
  // Whether its copy has more than a block more than what a match has found.
  bool pays(const Sequence& seq) const {
    return seq.swapped != nullptr && seq.swapped->n_tokens > seq.n_computed + cache_.block_tokens();
  }
  // Fills its empty table; the copy stays. False, with nothing changed: there is no room.
  bool in(Sequence& seq);
  // Its copy is of no use any more. `restored`: it runs on behind it.
  void drop(Sequence& seq, bool restored);

  int64_t bytes() const { return bytes_; }
  int64_t most_bytes() const { return most_bytes_; }

 private:
  KvCache& cache_;
  Accounts& accounts_;
  const int64_t most_bytes_;
  int64_t bytes_ = 0;
};

}  // namespace quire
