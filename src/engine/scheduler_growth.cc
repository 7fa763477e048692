// Whether there will be room for one more beside those that run, as all of them grow (growth.h).
#include <algorithm>

#include "engine/scheduler.h"

namespace quire {
namespace {

// Rows that it may come to; the last token is not read any more.
int most_tokens(const Sequence& seq) {
  return std::max(static_cast<int>(seq.tokens.size()), seq.n_prompt + seq.request.max_tokens - 1);
}

}  // namespace

// What a leader computes for it and what a tier brings has room already. Its own blocks are counted when it has another
// one: who else holds them changes rarely.
Growing Scheduler::growing(Sequence& seq) const {
  if (seq.own.n_table != seq.kv.table.size()) seq.own = {seq.kv.table.size(), cache_.n_own_blocks(seq.kv)};
  const int block = cache_.block_tokens();
  size_t n_blocks = seq.kv.table.size();
  if (seq.follows.leader != 0) n_blocks = std::max(n_blocks, static_cast<size_t>(seq.follows.n_shared / block));
  if (seq.load != nullptr) n_blocks = std::max(n_blocks, seq.load->run.before().size() + seq.load->run.blocks().size());
  const auto n_tokens = static_cast<int64_t>(seq.tokens.size());
  Growing out;
  out.n_missing = n_tokens + block / 2 - seq.kv.n_dropped - (static_cast<int64_t>(n_blocks) - seq.kv.n_copies) * block;
  out.n_left = growth_.left(seq, most_tokens(seq) - n_tokens);
  out.n_freed = int64_t{seq.own.n_blocks} * block;
  return out;
}

// Beside others: as far as what is expected says there will be blocks for all until they end. Whose turn it is among
// tenants comes in whatever others will need.
KvCache::Shortage Scheduler::shortage_ahead(Sequence& seq) {
  if (!growth_.bounded() || running_.empty() || seq.id == way_made_) return {};
  if (growth_.strict()) return shortage_at_most(seq);
  growing_.clear();
  for (const auto& other : running_) growing_.push_back(growing(*other));
  growing_.push_back(growing(seq));
  const int block = cache_.block_tokens();
  return {(peak_of(growing_) + block - 1) / block, int64_t{cache_.n_free_blocks()} + cache_.n_cached_blocks()};
}

// All take all that they may at the same time.
KvCache::Shortage Scheduler::shortage_at_most(const Sequence& seq) const {
  const int n_step = std::min(options_.step_tokens, options_.max_chunk);
  for (int g = 0; g < cache_.n_groups(); ++g) {
    int64_t n = cache_.to_take(seq.kv, g, most_tokens(seq), n_step);
    for (const auto& other : running_) n += cache_.to_take(other->kv, g, most_tokens(*other), n_step);
    const BlockPool& pool = cache_.pool(g);
    const bool of_states = cache_.group(g).kind == KvGroup::Kind::state;
    const KvCache::Shortage lack{n, int64_t{pool.n_free()} + pool.n_cached(), of_states};
    if (lack) return lack;
  }
  return {};
}

}  // namespace quire
