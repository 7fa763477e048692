// no_repeat_ngram_size: no run of that many tokens of prompt and answer occurs twice (Paulus et al. 2017, as in
// Transformers).
#include "sample/rules.h"

namespace quire {
namespace {

class NoRepeatNgram final : public LogitsRule {
 public:
  explicit NoRepeatNgram(const RuleContext& c)
      : size_(c.sampling.no_repeat_ngram_size), history_(c.prompt.begin(), c.prompt.end()) {}

  void edits(LogitEdits& out) const override {
    suffix_matches(history_, size_ - 1, matches_);
    for (size_t i = 0; i + 1 < history_.size(); ++i) {
      if (matches_[i] >= size_ - 1) out.sparse.push_back(forbid(history_[i + 1]));
    }
  }
  void accept(Token id) override { history_.push_back(id); }
  void rollback(int n) override { history_.resize(history_.size() - static_cast<size_t>(n)); }

 private:
  const int size_;
  std::vector<Token> history_;
  mutable std::vector<int> matches_;  // scratch
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.no_repeat_ngram_size <= 0 ? nullptr : std::make_unique<NoRepeatNgram>(c);
}
QR_REGISTER(LogitsRuleEntry, "no_repeat_ngram", {3, make});

}  // namespace
}  // namespace quire
