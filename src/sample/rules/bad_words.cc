// bad_words, bad_token_ids: the last token of a forbidden sequence is forbidden where the answer ends with the others.
// The prompt does not count (as in vLLM).
#include <algorithm>

#include "sample/rules.h"

namespace quire {
namespace {

class BadWords final : public LogitsRule {
 public:
  explicit BadWords(const RuleContext& c) : words_(c.sampling.bad_words) {}

  void edits(LogitEdits& out) const override {
    for (const std::vector<Token>& word : words_) {
      const size_t n = word.size() - 1;
      if (n <= answer_.size() &&
          std::equal(word.begin(), word.end() - 1, answer_.end() - static_cast<std::ptrdiff_t>(n)))
        out.sparse.push_back(forbid(word.back()));
    }
  }
  void accept(Token id) override { answer_.push_back(id); }
  void rollback(int n) override { answer_.resize(answer_.size() - static_cast<size_t>(n)); }

 private:
  const SharedList<std::vector<Token>> words_;
  std::vector<Token> answer_;
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.bad_words.empty() ? nullptr : std::make_unique<BadWords>(c);
}
QR_REGISTER(LogitsRuleEntry, "bad_words", {3, make});

}  // namespace
}  // namespace quire
