// What the cache calls as blocks come and go: who watches is told, and tiers below memory may take a copy. Engine
// thread only.
#pragma once
#include "kv/block_watcher.h"
#include "kv/kv_cache.h"
#include "kv/tiers/tier_chain.h"

namespace quire {

// All outlive the cache that is made with `options`, which `cache` is then; `watcher` may be null. n_blocks: how many
// may be known that tiers alone have.
inline void hook_blocks(
    KvCacheOptions& options, BlockWatcher* watcher, TierChain& tiers, const KvCache& cache, int n_blocks) {
  if (!tiers.empty()) options.n_elsewhere = n_blocks;
  if (tiers.empty() && watcher == nullptr) return;
  options.keep = [watcher, &tiers, &cache](const LeavingBlock& block) {
    if (watcher != nullptr) watcher->removed(block.name);
    return tiers.offer(block, cache.view());
  };
  options.computed = [watcher, &tiers, &cache](const LeavingBlock& block) {
    if (watcher != nullptr) watcher->stored(block);
    tiers.offer(block, cache.view());
  };
}

}  // namespace quire
