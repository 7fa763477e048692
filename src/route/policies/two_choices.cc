// The less loaded of two that are drawn (Mitzenmacher 2001): nearly as even as the least loaded, and routers that know
// little of each other do not all run to the same worker.
#include "base/rng.h"
#include "route/policy.h"

namespace quire {
namespace {

RouteChoice choose(std::span<const WorkerView> workers, const RouteQuery& query) {
  const uint64_t drawn = random_bits(query.key, query.turn);
  const size_t n = workers.size(), a = static_cast<size_t>(drawn % n);
  const size_t b = n == 1 ? a : (a + 1 + static_cast<size_t>((drawn >> 32) % (n - 1))) % n;
  return {workers[b].load_tokens < workers[a].load_tokens ? b : a, "two_choices"};
}

QR_REGISTER(RoutePolicyEntry, "two_choices", RoutePolicyEntry{&choose, false});

}  // namespace
}  // namespace quire
