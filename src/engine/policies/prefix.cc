// Longest cached share of the prompt first, with ageing: a request whose prompt is cached to the share h stands where
// one would that came h · kPatienceNs earlier. So hits group together while their blocks are there, and nobody is
// passed by a request that comes more than kPatienceNs after it. Written as a time of arrival the age of two requests
// cancels out of their comparison: the order needs no clock. Source: longest prefix match (SGLang) with ageing linear
// in time.
#include <tuple>

#include "engine/policy.h"

namespace quire {
namespace {

constexpr int64_t kPatienceNs = 2'000'000'000;

class PrefixFirst final : public Policy {
 public:
  void order(std::span<const Candidate> candidates, std::span<int> order) const override {
    order_by(candidates, order,
             [](const Candidate& c) { return std::tuple(c.submitted_ns - kPatienceNs * c.n_hit / c.n_prompt, c.id); });
  }
  bool wants_hits() const override { return true; }
};

const Policy* get() {
  static const PrefixFirst policy;
  return &policy;
}

QR_REGISTER(PolicyEntry, "prefix", PolicyEntry{&get});

}  // namespace
}  // namespace quire
