#include "tests/sim/recomputed.h"

#include <algorithm>

namespace quire::sim {

bool Recomputed::is_safe(const Snapshot& now, const Live& live) const {
  int64_t n = 0;
  for (const SequenceView& view : now.seqs) {
    if (!view.running) continue;
    const int most_answer = std::min(live.at(view.id)->script->max_tokens, knobs_.n_ctx - view.n_prompt);
    const int most = std::max(view.n_tokens, view.n_prompt + most_answer - 1);
    n += std::max(0, (most + knobs_.block_tokens - 1) / knobs_.block_tokens - view.n_blocks);
  }
  return n <= now.stats.n_free_blocks + now.stats.n_cached_blocks;
}

void Recomputed::before_step(const Snapshot& before, const Live& live) {
  ran_.clear();
  for (const SequenceView& view : before.seqs) {
    if (view.running) ran_.insert(view.id);
  }
  alone_ = live.empty() || std::ranges::all_of(live, [&](const auto& entry) {
             return entry.second->script->tenant == live.begin()->second->script->tenant;
           });
  was_safe_ = is_safe(before, live);
  credit_ = before.stats.recompute_credit;
  n_out_of_blocks_ = before.stats.n_out_of_blocks;
  n_cancelled_ = before.stats.n_cancelled;
}

void Recomputed::after_step(const Snapshot& after, const Live& live) {
  const EngineStats& stats = after.stats;
  const int64_t n_fresh = stats.spent.computed[static_cast<size_t>(Cause::fresh)];
  const int64_t n_lost = stats.most_recompute_credit - stats.recompute_credit;
  if (100 * stats.n_recomputed_for_blocks > knobs_.recompute_percent * n_fresh + 100 * n_lost) {
    failure_.set(std::to_string(stats.n_recomputed_for_blocks) + " tokens were computed again for want of blocks; " +
                 std::to_string(n_fresh) + " for the first time, and the credit is less by " + std::to_string(n_lost));
  }
  // A turn among tenants comes in whatever others will need. Windows have blocks of their own.
  if (!alone_ || knobs_.recompute_percent == 100) return;
  if (was_safe_ && knobs_.window == 0 && stats.n_out_of_blocks > n_out_of_blocks_) {
    failure_.set("blocks ran out though all that ran had room for the most that they might ask for");
  }
  const auto enters = [this](const SequenceView& view) { return view.running && !ran_.contains(view.id); };
  const bool tiers = knobs_.tier_blocks + knobs_.remote_blocks > 0;  // what comes from there has its room already
  // What comes in may find again what it was charged with.
  const bool strict = std::max(credit_, stats.recompute_credit) < 0 && stats.n_cancelled == n_cancelled_;
  if (!strict || tiers || std::ranges::none_of(after.seqs, enters)) return;
  ++n_strict_;
  if (!is_safe(after, live)) failure_.set("somebody came in who may cost more tokens than may still be lost");
}

}  // namespace quire::sim
