// To whom has the fewest tokens to do.
#include "route/policy.h"

namespace quire {
namespace {

RouteChoice choose(std::span<const WorkerView> workers, const RouteQuery& query) {
  return {least_loaded(workers, query.turn), "least_load"};
}

QR_REGISTER(RoutePolicyEntry, "least_load", RoutePolicyEntry{&choose, false});

}  // namespace
}  // namespace quire
