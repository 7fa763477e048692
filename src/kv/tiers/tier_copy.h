// The bytes of a block that is offered to a tier, out of memory. Engine thread.
#pragma once
#include <optional>

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

// What there is of the block, group by group. Nothing where a device failed to give it.
inline std::optional<TierBlock> copy_of(const LeavingBlock& block, const KvView& memory) {
  TierBlock out;
  out.groups = groups_of(block.blocks);
  int64_t bytes = 0;
  for (size_t g = 0; g < block.blocks.size(); ++g) bytes += block.blocks[g] ? memory.groups[g].block_bytes : 0;
  out.bytes.resize(static_cast<size_t>(bytes));
  std::byte* to = out.bytes.data();
  for (size_t g = 0; g < block.blocks.size(); ++g) {
    if (!block.blocks[g]) continue;
    if (!memory.groups[g].read(to, block.blocks[g].id())) return std::nullopt;
    to += memory.groups[g].block_bytes;
  }
  return out;
}

}  // namespace quire
