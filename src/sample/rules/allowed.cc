// allowed_token_ids: only these may follow.
#include "sample/rules.h"

namespace quire {
namespace {

class Allowed final : public LogitsRule {
 public:
  explicit Allowed(const RuleContext& c) : ids_(c.sampling.allowed_ids), n_vocab_(c.n_vocab) {}
  void edits(LogitEdits& out) const override { allow_only(ids_, n_vocab_, out); }
  void accept(Token) override {}
  void rollback(int) override {}

 private:
  const SharedList<Token> ids_;
  const int n_vocab_;
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.allowed_ids.empty() ? nullptr : std::make_unique<Allowed>(c);
}
QR_REGISTER(LogitsRuleEntry, "allowed", {0, make});

}  // namespace
}  // namespace quire
