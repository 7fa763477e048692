// The earliest deadline first, within shares. Tenants that are within their allowance go before others, and among these
// requests the one whose first token is due first. Of the others the tenant that has been served least goes first
// (policies/vtc.cc), and of its requests the one that is due first: a tenant that names early deadlines gets no more
// for it. Who names none is due kUsualDeadlineNs after it came, so nobody waits behind new deadlines for ever. What
// cannot be on time is refused as soon as that is known (scheduler_deadlines.cc); what has begun goes on.
#include <tuple>

#include "engine/policy.h"

namespace quire {
namespace {

class Deadlines final : public Policy {
 public:
  void order(std::span<const Candidate> candidates, std::span<int> order) const override {
    order_by(candidates, order,
             [](const Candidate& c) { return std::tuple(!c.within, c.within ? 0 : c.served, c.deadline_ns, c.turn); });
  }
  bool wants_deadlines() const override { return true; }
  bool wants_allowances() const override { return true; }
};

const Policy* get() {
  static const Deadlines policy;
  return &policy;
}

QR_REGISTER(PolicyEntry, "deadlines", PolicyEntry{&get});

}  // namespace
}  // namespace quire
