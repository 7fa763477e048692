// Mirostat (Basu et al. 2020): the bound mu on a token's surprise follows the surprise that was observed, so that its
// mean stays at tau. The versions differ in what they cut for a mu (ops/filters/mirostat_*.h). mu is a function of the
// committed tokens: one value is kept for each.
#include "sample/rules.h"

namespace quire {
namespace {

class Mirostat final : public LogitsRule {
 public:
  explicit Mirostat(const RuleContext& c)
      : tau_(c.sampling.mirostat_tau), eta_(c.sampling.mirostat_eta), mu_{2.0F * tau_} {}

  void edits(LogitEdits&) const override {}
  void shape(SampleParams& out) const override { out.mirostat_mu = mu_.back(); }
  bool needs_samples() const override { return true; }
  void observe(const Sampled& sampled) override { surprise_ = sampled.surprise; }
  void accept(Token) override { mu_.push_back(mu_.back() - eta_ * (surprise_ - tau_)); }
  void rollback(int n) override { mu_.resize(mu_.size() - static_cast<size_t>(n)); }

 private:
  const float tau_, eta_;
  std::vector<float> mu_;
  float surprise_ = 0.0F;
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.mirostat != 0 ? std::make_unique<Mirostat>(c) : nullptr;
}
QR_REGISTER(LogitsRuleEntry, "mirostat", {4, make});

}  // namespace
}  // namespace quire
