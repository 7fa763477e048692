// allowed_token_ids: only these may follow. The mask is made once, by whoever reads the request, for all its sequences.
#include "sample/rules.h"

namespace quire {
namespace {

class Allowed final : public LogitsRule {
 public:
  explicit Allowed(const RuleContext& c)
      : mask_(c.sampling.allowed_mask.empty() ? mask_of(c.sampling.allowed_ids, c.n_vocab) : c.sampling.allowed_mask) {}
  void edits(LogitEdits& out) const override { allow_only(mask_, out); }
  void accept(Token) override {}
  void rollback(int) override {}

 private:
  const SharedList<uint32_t> mask_;
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.allowed_ids.empty() ? nullptr : std::make_unique<Allowed>(c);
}
QR_REGISTER(LogitsRuleEntry, "allowed", {0, make});

}  // namespace
}  // namespace quire
