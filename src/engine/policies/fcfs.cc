// First come, first served: ids are given out at submit, so their order is the order of arrival.
#include <algorithm>

#include "engine/policy.h"

namespace quire {
namespace {

class Fcfs final : public Policy {
 public:
  void order(std::span<const Candidate> candidates, std::span<int> order) const override {
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return candidates[static_cast<size_t>(a)].id < candidates[static_cast<size_t>(b)].id;
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
