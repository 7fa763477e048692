// A compiled constraint (sample/constraint.h): only what its grammar lets follow may follow. What ends the answer may
// come when the text is whole and never before; where min_tokens is not reached it is forbidden as long as anything
// else may come. A token that may not come makes accept() throw, a state behind which nothing may come edits().
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "sample/constraint.h"
#include "sample/rules.h"

namespace quire {
namespace {

class FollowsGrammar final : public LogitsRule {
 public:
  explicit FollowsGrammar(const RuleContext& c)
      : constraint_(c.sampling.constraint), min_tokens_(c.sampling.min_tokens) {
    for (const std::span<const Token> ids : {c.end_ids, constraint_->vocabulary->ends()}) {
      for (const Token id : ids) {
        if (id >= 0 && id < c.n_vocab) ends_.push_back(id);
      }
    }
  }

  void edits(LogitEdits& out) const override {
    if (out.bitmask.empty()) return fill(out.bitmask);
    fill(words_);
    out.bitmask.resize(std::min(out.bitmask.size(), words_.size()));
    for (size_t i = 0; i < out.bitmask.size(); ++i) out.bitmask[i] &= words_[i];
  }
  void accept(Token id) override {
    if (const Status taken = matcher().accept(id); !taken) fails(taken.error());
  }
  void rollback(int n) override { matcher().rollback(static_cast<size_t>(n)); }

 private:
  // What is beyond a bound is the grammar's own fault.
  [[noreturn]] void fails(const Error& why) const {
    const bool own = why.code == Code::exhausted || why.code == Code::unsupported;
    throw std::runtime_error((own ? std::string(kEndedByRules) + ": " : "") + constraint_->field + ": " + why.message);
  }

  // Made when it is first needed: what waits for its turn holds no caches.
  Matcher& matcher() const {
    if (!matcher_) matcher_.emplace(constraint_->grammar, constraint_->vocabulary);
    return *matcher_;
  }

  void fill(std::vector<uint32_t>& words) const {
    Matcher& m = matcher();
    words.resize(m.n_words());
    if (const Status made = m.mask(words); !made) fails(made.error());
    const auto set_ends = [&](bool on) {
      for (const Token id : ends_) {
        const auto i = static_cast<size_t>(id);
        if (i / 32 >= words.size()) continue;
        words[i / 32] = on ? words[i / 32] | 1U << (i % 32) : words[i / 32] & ~(1U << (i % 32));
      }
    };
    const auto any = [&] { return std::any_of(words.begin(), words.end(), [](uint32_t w) { return w != 0; }); };
    const bool may_end = m.may_end();
    const bool too_short = m.accepted() < static_cast<size_t>(std::max(min_tokens_, 0));
    set_ends(may_end && !too_short);
    if (any()) return;
    if (!may_end)
      fails({Code::unsupported, "nothing may follow: the vocabulary lacks what the grammar wants, or it is a stop id"});
    set_ends(true);
  }

  const std::shared_ptr<const Constraint> constraint_;
  const int min_tokens_;
  std::vector<Token> ends_;
  mutable std::optional<Matcher> matcher_;
  mutable std::vector<uint32_t> words_;  // scratch
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  return has_grammar(c.sampling) ? std::make_unique<FollowsGrammar>(c) : nullptr;
}
QR_REGISTER(LogitsRuleEntry, "grammar", {0, make});

}  // namespace
}  // namespace quire
