// First come, first served, in turns: the oldest of each tenant, then the second of each, and so on. Ids are given out
// at submit, so where there is one tenant this is the order of arrival.
#include "engine/policy.h"

namespace quire {
namespace {

class Fcfs final : public Policy {
 public:
  void order(std::span<const Candidate> candidates, std::span<int> order) const override {
    order_by(candidates, order, [](const Candidate& c) { return c.turn; });
  }
};

const Policy* get() {
  static const Fcfs policy;
  return &policy;
}

QR_REGISTER(PolicyEntry, "fcfs", PolicyEntry{&get});

}  // namespace
}  // namespace quire
