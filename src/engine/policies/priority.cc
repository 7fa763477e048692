// Lower numbers first, as vLLM's field of that name has it; among equals the tenant that has been served least
// (policies/vtc.cc), then in turns, and of a tenant first come, first served. Strict: while more urgent requests keep
// coming, less urgent ones wait. Who is most urgent and oldest is never preempted.
#include <tuple>

#include "engine/policy.h"

namespace quire {
namespace {

class Priority final : public Policy {
 public:
  void order(std::span<const Candidate> candidates, std::span<int> order) const override {
    order_by(candidates, order, [](const Candidate& c) { return std::tuple(c.priority, !c.within, c.served, c.turn); });
  }
  bool wants_allowances() const override { return true; }
};

const Policy* get() {
  static const Priority policy;
  return &policy;
}

QR_REGISTER(PolicyEntry, "priority", PolicyEntry{&get});

}  // namespace
}  // namespace quire
