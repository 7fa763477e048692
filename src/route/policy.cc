#include "route/policy.h"

#include "base/check.h"
#include "base/rng.h"

namespace quire {

namespace {

constexpr double kMostOfMean = 1.25;

}  // namespace

double load_bound(std::span<const WorkerView> workers, int64_t tokens) {
  auto all = static_cast<double>(tokens);
  for (const WorkerView& w : workers) all += static_cast<double>(w.load_tokens);
  return kMostOfMean * all / static_cast<double>(workers.size());
}

size_t least_loaded(std::span<const WorkerView> workers, uint64_t turn) {
  QR_CHECK(!workers.empty());
  size_t best = turn % workers.size();
  for (size_t k = 1; k < workers.size(); ++k) {
    const size_t i = (turn + k) % workers.size();
    const WorkerView &w = workers[i], &b = workers[best];
    if (w.load_tokens < b.load_tokens || (w.load_tokens == b.load_tokens && w.n_requests < b.n_requests)) best = i;
  }
  return best;
}

RouteChoice by_key(std::span<const WorkerView> workers, const RouteQuery& query) {
  const double bound = load_bound(workers, query.tokens);
  size_t home = 0, best = workers.size();
  for (size_t i = 0; i < workers.size(); ++i) {
    const auto rank = [&](size_t k) { return random_bits(query.key, workers[k].id); };
    if (rank(i) > rank(home)) home = i;
    const bool fits = static_cast<double>(workers[i].load_tokens) <= bound;
    if (fits && (best == workers.size() || rank(i) > rank(best))) best = i;
  }
  if (best == home) return {home, "hash"};
  if (best == workers.size()) return {least_loaded(workers, query.turn), "hash_full"};
  return {best, "hash_full"};
}

}  // namespace quire
