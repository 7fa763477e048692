// To whom holds the longest beginning of the prompt, among those within the bound of load; a prompt that nobody knows
// goes to the least loaded, which then holds it.
#include "route/policy.h"

namespace quire {
namespace {

RouteChoice choose(std::span<const WorkerView> workers, const RouteQuery& query) {
  const double bound = load_bound(workers, query.tokens);
  int64_t longest = 0, best_hit = 0;
  size_t best = workers.size();
  for (size_t k = 0; k < workers.size(); ++k) {
    const size_t i = (query.turn + k) % workers.size();
    const WorkerView& w = workers[i];
    if (w.hit_tokens > longest) longest = w.hit_tokens;
    if (w.hit_tokens == 0 || static_cast<double>(w.load_tokens) > bound) continue;
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
