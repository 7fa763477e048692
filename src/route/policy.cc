#include "route/policy.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace quire {

namespace {

constexpr double kMostOfMean = 1.25;

}  // namespace

LoadBound::LoadBound(std::span<const WorkerView> workers, int64_t tokens) {
  int64_t all_tokens = tokens, all_requests = 1;
  for (const WorkerView& w : workers) {
    all_tokens += w.load_tokens;
    all_requests += w.n_requests;
  }
  const double share = kMostOfMean / static_cast<double>(workers.size());
  most_tokens_ = share * static_cast<double>(all_tokens);
  most_requests_ = static_cast<int64_t>(std::ceil(share * static_cast<double>(all_requests)));
}

size_t least_loaded(std::span<const WorkerView> workers, uint64_t turn) {
  QR_CHECK(!workers.empty());
  size_t best = turn % workers.size(), i = best;
  for (size_t k = 1; k < workers.size(); ++k) {
    i = i + 1 < workers.size() ? i + 1 : 0;
    const WorkerView &w = workers[i], &b = workers[best];
    if (w.load_tokens < b.load_tokens || (w.load_tokens == b.load_tokens && w.n_requests < b.n_requests)) best = i;
  }
  return best;
}

RouteChoice by_key(std::span<const WorkerView> workers, const RouteQuery& query) {
  const LoadBound bound(workers, query.tokens);
  size_t home = 0, best = workers.size();
  for (size_t i = 0; i < workers.size(); ++i) {
    const auto rank = [&](size_t k) { return random_bits(query.key, workers[k].id); };
    if (rank(i) > rank(home)) home = i;
    const bool fits = bound.allows(workers[i]);
    if (fits && (best == workers.size() || rank(i) > rank(best))) best = i;
  }
  if (best == home) return {home, "hash"};
  if (best == workers.size()) return {least_loaded(workers, query.turn), "hash_full"};
  return {best, "hash_full"};
}

}  // namespace quire
