// The bytes of a block that is offered to tiers, out of memory. Engine thread.
#pragma once
#include <algorithm>

#include "kv/tiers/tier.h"

namespace quire {

inline uint8_t groups_of(const GroupBlocks& blocks) {
  uint8_t out = 0;
  for (size_t g = 0; g < blocks.size(); ++g) out = static_cast<uint8_t>(out | (blocks[g] ? 1U << g : 0U));
  return out;
}

inline Spelling spelling_of(const LeavingBlock& block) {
  Spelling out{block.name, block.parent, block.key, {}, {}};
  out.tokens.assign(block.tokens.begin(), block.tokens.end());
  out.extras.assign(block.extras.begin(), block.extras.end());
  return out;
}

// Begins to copy what there is of the block, group by group, into `out`, whose bytes stay where they are until the copy
// is over. Its number is the copier's (KvView::state). Throws std::bad_alloc before anything is copied.
inline int64_t begin_copy(const LeavingBlock& block, const KvView& memory, TierBlock& out) {
  int64_t bytes = 0;
  for (size_t g = 0; g < block.blocks.size(); ++g) bytes += block.blocks[g] ? memory.groups[g].block_bytes : 0;
  out.bytes.resize(static_cast<size_t>(bytes));
  out.groups = groups_of(block.blocks);
  std::byte* to = out.bytes.data();
  int64_t last = Copier::kDone;
  for (size_t g = 0; g < block.blocks.size(); ++g) {
    if (!block.blocks[g]) continue;
    const int64_t copy = memory.groups[g].read(to, block.blocks[g].id());
    if (copy == Copier::kFailed) return copy;
    last = std::max(last, copy);
    to += memory.groups[g].block_bytes;
  }
  return last;
}

}  // namespace quire
