// DRY, "don't repeat yourself" (p-e-w, text-generation-webui #5677): a token that would lengthen a repetition of at
// least allowed_length tokens loses multiplier · base^(length − allowed_length). Repetitions neither cross a breaker
// nor end in one.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "sample/rules.h"

namespace quire {
namespace {

constexpr int kLongestWindow = 32768;  // tokens: what a step spends on it is bounded
constexpr double kMaxPenalty = 1e6;

class Dry final : public LogitsRule {
 public:
  explicit Dry(const RuleContext& c)
      : multiplier_(c.sampling.dry_multiplier),
        base_(c.sampling.dry_base),
        allowed_length_(c.sampling.dry_allowed_length),
        window_(static_cast<size_t>(c.sampling.dry_last_n < 0 ? kLongestWindow
                                                              : std::min(c.sampling.dry_last_n, kLongestWindow))),
        breakers_(c.sampling.dry_breakers),
        history_(c.prompt.begin(), c.prompt.end()) {}

  void edits(LogitEdits& out) const override {
    const std::span<const Token> seen = std::span(history_).last(std::min(window_, history_.size()));
    int limit = 0;  // tokens since the last breaker
    while (limit < static_cast<int>(seen.size()) && !breaks(seen[seen.size() - 1 - static_cast<size_t>(limit)]))
      ++limit;
    if (limit < allowed_length_) return;
    suffix_matches(seen, limit, matches_);
    longest_.clear();
    for (size_t i = 0; i + 1 < seen.size(); ++i) {
      if (matches_[i] < std::max(allowed_length_, 1) || breaks(seen[i + 1])) continue;
      int& length = longest_[seen[i + 1]];
      length = std::max(length, matches_[i]);
    }
    for (const auto& [id, length] : longest_) {
      const double penalty =
          static_cast<double>(multiplier_) * std::pow(static_cast<double>(base_), length - allowed_length_);
      out.sparse.push_back({id, -static_cast<float>(std::min(penalty, kMaxPenalty)), 1.0F});
    }
  }
  void accept(Token id) override { history_.push_back(id); }
  void rollback(int n) override { history_.resize(history_.size() - static_cast<size_t>(n)); }

 private:
  bool breaks(Token id) const { return std::binary_search(breakers_.begin(), breakers_.end(), id); }

  const float multiplier_, base_;
  const int allowed_length_;
  const size_t window_;
  const SharedList<Token> breakers_;
  std::vector<Token> history_;
  mutable std::vector<int> matches_;                // scratch
  mutable std::unordered_map<Token, int> longest_;  // scratch
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return c.sampling.dry_multiplier <= 0.0F || c.sampling.dry_last_n == 0 ? nullptr : std::make_unique<Dry>(c);
}
QR_REGISTER(LogitsRuleEntry, "dry", {2, make});

}  // namespace
}  // namespace quire
