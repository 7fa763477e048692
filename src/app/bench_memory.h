// The cache of a bench: room for all its sequences at once, so that none is preempted and nothing is evicted.
#pragma once
#include <cstdint>

#include "engine/limits.h"

namespace quire {

// Sets kv_bytes, and n_states where layers keep a state. REQUIRES n_ctx to be filled in.
inline void give_room(EngineOptions& options, const KvLayout& layout, int n_seqs) {
  const int64_t n_blocks = options.n_ctx / options.block_tokens + 2;
  EngineOptions settled = options;
  settle_drafts(settled, !options.proposer.empty());
  options.n_states = static_cast<int>(n_states_for(settled, n_seqs));
  options.kv_bytes =
      n_seqs * n_blocks * options.block_tokens * layout.token_bytes() + options.n_states * layout.state_bytes();
}

}  // namespace quire
