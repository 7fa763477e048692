// top_p_decay: top_p shrinks by a factor with each token, down to top_p_min, and starts anew after the reset token
// (factual-nucleus sampling: Lee et al. 2022; names of TensorRT-LLM).
#include <algorithm>

#include "sample/rules.h"

namespace quire {
namespace {

class TopPDecay final : public LogitsRule {
 public:
  explicit TopPDecay(const RuleContext& c)
      : decay_(c.sampling.top_p_decay),
        min_(c.sampling.top_p_min),
        reset_(c.sampling.top_p_reset_id),
        top_p_{c.sampling.top_p} {}

  void edits(LogitEdits&) const override {}
  void shape(SampleParams& out) const override { out.top_p = top_p_.back(); }
  void accept(Token id) override {
    top_p_.push_back(reset_ == id ? top_p_.front() : std::max(top_p_.back() * decay_, std::min(min_, top_p_.front())));
  }
  void rollback(int n) override { top_p_.resize(top_p_.size() - static_cast<size_t>(n)); }

 private:
  const float decay_, min_;
  const std::optional<Token> reset_;
  std::vector<float> top_p_;  // for each token of the answer, and the next
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.top_p_decay < 1.0F ? std::make_unique<TopPDecay>(c) : nullptr;
}
QR_REGISTER(LogitsRuleEntry, "top_p_decay", {4, make});

}  // namespace
}  // namespace quire
