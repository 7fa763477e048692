// min_tokens: what would end the answer is forbidden until it has that many tokens. Where a
// grammar says when the answer may end, its rule sees to both.
#include "sample/rules.h"

namespace quire {
namespace {

class MinTokens final : public LogitsRule {
 public:
  explicit MinTokens(const RuleContext& c) : left_(c.sampling.min_tokens) {
    for (const Token id : c.end_ids) {
      if (id >= 0 && id < c.n_vocab) end_ids_.push_back(id);
    }
  }

  void edits(LogitEdits& out) const override {
    if (left_ <= 0) return;
    for (const Token id : end_ids_) out.sparse.push_back(forbid(id));
  }
  void accept(Token) override { --left_; }
  void rollback(int n) override { left_ += n; }

 private:
  std::vector<Token> end_ids_;
  int64_t left_;
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.min_tokens <= 0 || c.end_ids.empty() || has_grammar(c.sampling) ? nullptr
                                                                                    : std::make_unique<MinTokens>(c);
}
QR_REGISTER(LogitsRuleEntry, "min_tokens", {3, make});

}  // namespace
}  // namespace quire
