// One after the other, whatever they have to do.
#include "route/policy.h"

namespace quire {
namespace {

RouteChoice choose(std::span<const WorkerView> workers, const RouteQuery& query) {
  return {static_cast<size_t>(query.turn % workers.size()), "round_robin"};
}

QR_REGISTER(RoutePolicyEntry, "round_robin", RoutePolicyEntry{&choose, false});

}  // namespace
}  // namespace quire
