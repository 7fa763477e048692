#include "kv/kv_image.h"

#include <algorithm>

#include "kv/kv_cache.h"

namespace quire {

// Of windows what the next row reads; of states the one behind the last token.
uint8_t KvCache::image_groups(const SeqKv& seq, int block, int n_tokens) const {
  const int n_blocks = blocks_for(seq, n_tokens);
  uint8_t out = 0;
  for (size_t g = 0; g < pools_.size(); ++g) {
    const bool wanted = is_state(g) ? block == n_blocks - 1 : reads(g, block, n_tokens);
    if (wanted && seq.table[static_cast<size_t>(block)][g]) out = static_cast<uint8_t>(out | 1U << g);
  }
  return out;
}

bool KvCache::parts_with_past(const SeqKv& seq, int n_computed) const {
  if (n_computed == 0 || blocks_for(seq, n_computed) > static_cast<int>(seq.table.size())) return false;
  if (seq.n_dropped > 0) return true;
  for (size_t g = 1; g < pools_.size(); ++g) {
    if (groups_[g].is_private) continue;
    if (is_state(g) || first_block(g, n_computed) > kept_blocks(g)) return true;
  }
  return false;
}

int64_t KvCache::image_bytes(const SeqKv& seq, int n_tokens) const {
  int64_t out = 0;
  for (int b = 0; b < blocks_for(seq, n_tokens); ++b) {
    const uint8_t groups = image_groups(seq, b, n_tokens);
    for (size_t g = 0; g < pools_.size(); ++g) out += (groups >> g & 1U) != 0 ? pools_[g]->block_bytes() : 0;
  }
  return out;
}

std::optional<KvImage> KvCache::copy_out(const SeqKv& seq, int n_tokens) const {
  KvImage out;
  out.n_tokens = n_tokens;
  out.n_dropped = seq.n_dropped;
  out.n_bytes = image_bytes(seq, n_tokens);
  out.bytes = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(out.n_bytes));
  out.groups.reserve(static_cast<size_t>(blocks_for(seq, n_tokens)));  // nothing throws while copies are under way
  std::byte* to = out.bytes.get();
  int64_t last = Copier::kDone;
  for (int b = 0; b < blocks_for(seq, n_tokens); ++b) {
    out.groups.push_back(image_groups(seq, b, n_tokens));
    for (size_t g = 0; g < pools_.size(); ++g) {
      if ((out.groups.back() >> g & 1U) == 0) continue;
      const int64_t copy = group_view(g).read(to, seq.table[static_cast<size_t>(b)][g].id());
      if (copy == Copier::kFailed) return std::nullopt;
      last = std::max(last, copy);
      to += pools_[g]->block_bytes();
    }
  }
  if (view().state(last, true) != CopyState::done) return std::nullopt;
  return out;
}

bool KvCache::put_back(SeqKv& seq, const KvImage& image) {
  QR_CHECK(seq.table.empty());
  Counts wanted{};
  for (const uint8_t groups : image.groups) {
    for (size_t g = 0; g < pools_.size(); ++g) wanted[g] += groups >> g & 1U;
  }
  if (!make_room(wanted, seq.whose)) return false;
  for (const uint8_t groups : image.groups) {
    PrefixTree::Blocks& blocks = seq.table.emplace_back();
    for (size_t g = 0; g < pools_.size(); ++g) {
      blocks.push_back((groups >> g & 1U) != 0 ? pools_[g]->allocate() : BlockRef());
    }
  }
  view().begin_writes();
  const std::byte* from = image.bytes.get();
  int64_t last = Copier::kDone;
  for (const PrefixTree::Blocks& blocks : seq.table) {
    for (size_t g = 0; g < pools_.size(); ++g) {
      if (!blocks[g]) continue;
      const int64_t copy = last == Copier::kFailed ? last : group_view(g).write(blocks[g].id(), from);
      last = copy == Copier::kFailed ? copy : std::max(last, copy);
      from += pools_[g]->block_bytes();
    }
  }
  const bool is_whole = view().state(last, true) == CopyState::done;
  while (!is_whole && !seq.table.empty()) seq.table.pop_back();
  seq.n_dropped = is_whole ? image.n_dropped : 0;
  if (seq.n_dropped > 0) seq.n_copies = 0;
  return is_whole;
}

}  // namespace quire
