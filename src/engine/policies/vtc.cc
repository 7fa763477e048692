// Virtual token counters: the tenant that has been served least goes first, in tokens that were computed for it and
// not in requests; within a tenant, and among equals, in turns. That is decided for the next place, anew with every
// step. Those that run stand in turns: what has begun is finished, and what was sent back for another does not send
// that one back. docs/engine.md has the bound. Source: Sheng et al. 2023.
#include <tuple>

#include "engine/policy.h"

namespace quire {
namespace {

class Vtc final : public Policy {
 public:
  void order(std::span<const Candidate> candidates, std::span<int> order) const override {
    order_by(candidates, order, [](const Candidate& c) { return std::tuple(!c.within, c.served, c.turn); });
  }
  bool wants_allowances() const override { return true; }
};

const Policy* get() {
  static const Vtc policy;
  return &policy;
}

QR_REGISTER(PolicyEntry, "vtc", PolicyEntry{&get});

}  // namespace
}  // namespace quire
