// To whom holds the longest beginning of the prompt, among those that may be given it; a prompt of which nobody holds
// an eighth goes to the least loaded, which then holds it. Less than that is no reason: what all prompts begin with
// would send those that have nothing else in common to the few workers that had it last, and push out of their caches
// what others come back for. Of a longer prompt than names of blocks reach, an eighth of what they reach.
#include <algorithm>

#include "route/asked.h"
#include "route/policy.h"

namespace quire {
namespace {

constexpr int64_t kLeastShare = 8;  // of the prompt's tokens, one in so many

RouteChoice choose(std::span<const WorkerView> workers, const RouteQuery& query) {
  const LoadBound bound(workers, query.tokens);
  int64_t longest = 0, best_hit = 0;
  size_t best = workers.size();
  size_t i = query.turn % workers.size();
  const int64_t findable = std::min(query.prompt_tokens, tokens_of_bytes(bytes_of_blocks(kMostBlocks)));
  for (size_t k = 0; k < workers.size(); ++k, i = i + 1 < workers.size() ? i + 1 : 0) {
    const WorkerView& w = workers[i];
    if (w.hit_tokens == 0 || kLeastShare * w.hit_tokens < findable) continue;
    if (w.hit_tokens > longest) longest = w.hit_tokens;
    if (!bound.keeps(w)) continue;
    const bool same = best < workers.size() && w.hit_tokens == best_hit;
    if (w.hit_tokens > best_hit || (same && w.load_tokens < workers[best].load_tokens)) {
      best = i;
      best_hit = w.hit_tokens;
    }
  }
  if (best < workers.size()) return {best, best_hit == longest ? "prefix" : "prefix_full"};
  return {least_loaded(workers, query.turn), longest > 0 ? "prefix_full" : "miss"};
}

QR_REGISTER(RoutePolicyEntry, "prefix", RoutePolicyEntry{&choose, true});

}  // namespace
}  // namespace quire
