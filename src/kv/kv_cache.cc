#include "kv/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace quire {

KvCache::KvCache(const KvLayout& layout, std::vector<Buffer> memory, const KvCacheOptions& options)
    : options_(options) {
  QR_CHECK(static_cast<int>(memory.size()) == layout.n_groups() && layout.n_groups() <= KvView::kMaxGroups);
  std::vector<BlockPool*> pools;
  for (int g = 0; g < layout.n_groups(); ++g) {
    const int64_t block_bytes = layout.token_bytes(g) * options.block_tokens;
    pools_.push_back(
        std::make_unique<BlockPool>(std::move(memory[static_cast<size_t>(g)]), options.n_blocks, block_bytes));
    pools.push_back(pools_.back().get());
  }
  if (options.prefix_cache) tree_ = std::make_unique<PrefixTree>(pools, options.block_tokens, options.hash);
}

int KvCache::match(SeqKv& seq, const Prefix& prefix) {
  QR_CHECK(seq.table.empty());
  if (!tree_ || prefix.tokens.empty()) return 0;
  return extend(seq, prefix);
}

int KvCache::extend(SeqKv& seq, const Prefix& prefix) {
  QR_DCHECK(static_cast<int>(seq.table.size()) == seq.n_indexed);
  if (!tree_) return 0;
  tree_->match(prefix, max_match(prefix), seq.table);
  seq.n_indexed = static_cast<int>(seq.table.size());
  return seq.n_indexed * options_.block_tokens;
}

int KvCache::peek(const Prefix& prefix) const {
  if (!tree_ || prefix.tokens.empty()) return 0;
  return tree_->peek(prefix, max_match(prefix)) * options_.block_tokens;
}

bool KvCache::grow(SeqKv& seq, int n_tokens) {
  const int wanted = blocks_for(n_tokens) - static_cast<int>(seq.table.size());
  if (wanted <= 0) return true;
  if (wanted > n_free_blocks() + n_cached_blocks()) return false;
  if (wanted > n_free_blocks()) tree_->evict(wanted - n_free_blocks());
  QR_CHECK(wanted <= n_free_blocks(), "whoever holds a block holds those before it, so what is cached can be freed");
  for (int i = 0; i < wanted; ++i) {
    PrefixTree::Blocks& blocks = seq.table.emplace_back();
    for (const auto& pool : pools_) blocks.push_back(pool->allocate());
  }
  return true;
}

bool KvCache::copy_next_block(SeqKv& to, const SeqKv& from) {
  const size_t b = to.table.size();
  QR_CHECK(b < from.table.size());
  if (!grow(to, (static_cast<int>(b) + 1) * options_.block_tokens)) return false;
  for (size_t g = 0; g < pools_.size(); ++g) {
    const BlockPool& pool = *pools_[g];
    const auto address = [&](const SeqKv& seq) { return pool.base() + seq.table[b][g].id() * pool.block_bytes(); };
    std::memcpy(address(to), address(from), static_cast<size_t>(pool.block_bytes()));
  }
  return true;
}

void KvCache::truncate(SeqKv& seq, int n_tokens) {
  QR_CHECK(n_tokens % options_.block_tokens == 0 || n_tokens / options_.block_tokens >= seq.n_indexed);
  const auto keep = static_cast<size_t>(blocks_for(n_tokens));
  if (seq.table.size() > keep) seq.table.resize(keep);
  seq.n_indexed = std::min(seq.n_indexed, n_tokens / options_.block_tokens);
}

int KvCache::index(SeqKv& seq, const Prefix& prefix, int n_computed) {
  const int n_full = n_computed / options_.block_tokens;
  if (!tree_ || n_full <= seq.n_indexed) return 0;
  const int n_known = std::exchange(seq.n_indexed, n_full);
  return tree_->insert(prefix, n_full, seq.table, n_known) * options_.block_tokens;
}

bool KvCache::exclusive(const SeqKv& seq, int begin, int end) const {
  if (blocks_for(end) > static_cast<int>(seq.table.size())) return false;
  for (int b = begin / options_.block_tokens; b < blocks_for(end); ++b) {
    const PrefixTree::Blocks& blocks = seq.table[static_cast<size_t>(b)];
    for (size_t g = 0; g < blocks.size(); ++g) {
      if (pools_[g]->n_refs(blocks[g].id()) != 1) return false;
    }
  }
  return true;
}

KvView KvCache::view() const {
  KvView view;
  for (const auto& pool : pools_) {
    view.groups[static_cast<size_t>(view.n_groups++)] = {pool->base(), pool->block_bytes(), options_.block_tokens};
  }
  return view;
}

}  // namespace quire
