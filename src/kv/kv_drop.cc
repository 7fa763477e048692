// Dropping blocks from the middle of a sequence's past (KvCache::drop_blocks).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace quire {

bool KvCache::drop_blocks(SeqKv& seq, std::span<const int32_t> kept) {
  QR_CHECK(n_groups() == 1 && seq.n_dropped == 0 && !kept.empty() && kept.front() == 0 &&
           kept.size() < seq.table.size());
  size_t n_leading = 0;  // that lie before every dropped block, and so stay as they are
  while (n_leading < kept.size() && kept[n_leading] == static_cast<int32_t>(n_leading)) ++n_leading;
  const auto behind = kept.subspan(n_leading);
  const auto is_shared = [&](int32_t b) { return pools_[0]->n_refs(seq.table[static_cast<size_t>(b)][0].id()) > 1; };
  Counts wanted{};
  wanted[0] = static_cast<int>(std::ranges::count_if(behind, is_shared));
  if (!make_room(wanted, seq.whose)) return false;
  const auto n_all = static_cast<int>(seq.table.size());
  // The deepest first, as in release(). Where a device fails, what was copied is as good as what it was copied from.
  for (size_t i = behind.size(); i-- > 0;) {
    if (!is_shared(behind[i])) continue;
    BlockRef& block = seq.table[static_cast<size_t>(behind[i])][0];
    BlockRef copy = pools_[0]->allocate();
    if (!group_view(0).copy(copy.id(), block.id())) return false;
    block = std::move(copy);
    seq.n_indexed = std::min(seq.n_indexed, behind[i]);
  }
  size_t at = kept.size();
  for (size_t b = seq.table.size(); b-- > n_leading;) {
    const bool is_kept = at > 0 && static_cast<size_t>(kept[at - 1]) == b;
    if (is_kept) --at;
    if (!is_kept) seq.table[b][0] = BlockRef();
  }
  for (size_t i = n_leading; i < kept.size(); ++i) {
    if (static_cast<size_t>(kept[i]) != i) seq.table[i] = std::move(seq.table[static_cast<size_t>(kept[i])]);
  }
  while (seq.table.size() > kept.size()) seq.table.pop_back();
  seq.n_dropped = (n_all - static_cast<int>(kept.size())) * options_.block_tokens;
  seq.n_indexed = 0;
  seq.n_copies = 0;
  return true;
}

}  // namespace quire
