// The blocks of a sequence as whoever lays out a pass writes them down.
#pragma once
#include <cstdint>
#include <span>

#include "kv/kv_cache.h"

namespace quire {

// Its blocks of a group, in order, into the first entries of `out`; 0 where a window has slid past.
inline void put_block_ids(const SeqKv& kv, size_t group, std::span<int32_t> out) {
  for (size_t b = 0; b < kv.table.size(); ++b) out[b] = kv.table[b][group] ? kv.table[b][group].id() : 0;
}

// Likewise of a branch: the shared blocks and its own.
inline void put_block_ids(const SeqKv& kv, const KvBranch& branch, size_t group, std::span<int32_t> out) {
  const auto put = [&](size_t b, const GroupBlocks& blocks) { out[b] = blocks[group] ? blocks[group].id() : 0; };
  for (size_t b = 0; b < branch.n_shared; ++b) put(b, kv.table[b]);
  for (size_t i = 0; i < branch.blocks.size(); ++i) put(branch.n_shared + i, branch.blocks[i]);
}

}  // namespace quire
