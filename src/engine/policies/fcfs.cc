// First come, first served, in turns: the oldest of each tenant, then the second of each, and so on. Ids are given out
// at submit, so where there is one tenant this is the order of arrival.
#include <algorithm>

#include "engine/policy.h"

namespace quire {
namespace {

class Fcfs final : public Policy {
 public:
  void order(std::span<const Candidate> candidates, std::span<int> order) const override {
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return candidates[static_cast<size_t>(a)].turn < candidates[static_cast<size_t>(b)].turn;
    });
  }
};

const Policy* get() {
  static const Fcfs policy;
  return &policy;
}

QR_REGISTER(PolicyEntry, "fcfs", PolicyEntry{&get});

}  // namespace
}  // namespace quire
