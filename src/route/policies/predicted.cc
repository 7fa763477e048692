// To whom the first token is foretold soonest: the prompts that a worker was given and has not begun to answer, and
// what it lacks of this one, at the speed that was measured of it, in steps of which every answer that streams takes a
// row. Who holds most of the prompt's beginning keeps it unless another is sooner by more than a measurement is sure
// of: what is computed elsewhere has to be kept twice.
#include <algorithm>

#include "route/policy.h"

namespace quire {
namespace {

constexpr double kStepRows = 512;        // of a step of an engine, prompts and answers together
constexpr double kLeastGain = 0.1;       // of the holder's time
constexpr double kLeastGainNs = 5e6;     // and this, where speeds are known
constexpr double kLeastGainTokens = 64;  // else so many tokens

// What a token takes of who was not measured yet: as others; 1 where nobody was.
double usual_token_ns(std::span<const WorkerView> workers) {
  double sum = 0;
  int n = 0;
  for (const WorkerView& w : workers) {
    sum += w.token_ns;
    n += w.token_ns > 0;
  }
  return n > 0 ? sum / n : 1;
}

double first_token_ns(const WorkerView& w, const RouteQuery& query, double usual_ns) {
  const int64_t own = std::max<int64_t>(query.prompt_tokens - w.hit_tokens, 1);
  const auto n_tokens = static_cast<double>(w.prefill_tokens + own);
  return n_tokens * (1 + static_cast<double>(w.n_decoding) / kStepRows) * (w.token_ns > 0 ? w.token_ns : usual_ns);
}

RouteChoice choose(std::span<const WorkerView> workers, const RouteQuery& query) {
  const LoadBound bound(workers, query.tokens);
  const double usual = usual_token_ns(workers);
  const size_t none = workers.size();
  size_t best = none, holder = none;
  int64_t longest = 0;
  double best_ns = 0;
  for (size_t k = 0; k < workers.size(); ++k) {
    const size_t i = (query.turn + k) % workers.size();
    const WorkerView& w = workers[i];
    longest = std::max(longest, w.hit_tokens);
    if (!bound.allows(w)) continue;
    const double ns = first_token_ns(w, query, usual);
    const bool lighter = best != none && ns == best_ns && w.load_tokens < workers[best].load_tokens;
    if (best == none || ns < best_ns || lighter) {
      best = i;
      best_ns = ns;
    }
    if (w.hit_tokens > 0 && (holder == none || w.hit_tokens > workers[holder].hit_tokens)) holder = i;
  }
  if (best == none) return {least_loaded(workers, query.turn), longest > 0 ? "prefix_full" : "miss"};
  if (holder == none) return {best, longest > 0 ? "prefix_full" : "miss"};
  const bool is_longest = workers[holder].hit_tokens == longest;
  const double holder_ns = first_token_ns(workers[holder], query, usual);
  const double gain_ns = std::max(kLeastGain * holder_ns, usual == 1 ? kLeastGainTokens : kLeastGainNs);
  if (best_ns + gain_ns < holder_ns) return {best, "sooner"};
  return {holder, is_longest ? "prefix" : "prefix_full"};
}

QR_REGISTER(RoutePolicyEntry, "predicted", RoutePolicyEntry{&choose, true});

}  // namespace
}  // namespace quire
