// thinking_token_budget: behind so many tokens of reasoning the mark that ends it is the only thing to come, token by
// token; what follows is free again. Thoughts begin where the prompt ends in their opening mark, or with that mark as
// the first of an answer but for white space; an answer that begins otherwise has none. The state is a function of the
// tokens alone, and the last ones are remembered for a way back.
#include "sample/thinking_budget.h"

#include <algorithm>

#include "base/check.h"
#include "sample/rules.h"

namespace quire {
namespace {

class LimitsThinking final : public LogitsRule {
 public:
  explicit LimitsThinking(const RuleContext& c) : budget_(c.sampling.thinking), n_vocab_(c.n_vocab) {
    State state;
    if (opened_by(c.prompt)) state.at = At::inside;
    states_.push_back(state);
  }

  void edits(LogitEdits& out) const override {
    const State& now = states_.back();
    if (!closes(now)) return;
    const Token next[] = {budget_->closing[static_cast<size_t>(now.n_closing)]};
    allow_only(mask_of(next, n_vocab_), out);
  }
  void accept(Token id) override { states_.push_back(behind(states_.back(), id)); }
  void rollback(int n) override {
    QR_CHECK(static_cast<size_t>(n) < states_.size(), "rollback of more than was accepted");
    states_.resize(states_.size() - static_cast<size_t>(n));
  }

 private:
  enum class At : uint8_t { start, inside, over };
  struct State {
    At at = At::start;
    uint8_t n_matched = 0;  // bytes of the mark that is looked for
    uint8_t n_closing = 0;  // tokens of the closing mark that came because they had to
    int n_thought = 0;
  };

  bool closes(const State& s) const { return s.at == At::inside && s.n_thought >= budget_->n_tokens; }

  State behind(State s, Token id) const {
    if (s.at == At::over) return s;
    if (closes(s) && id == budget_->closing[s.n_closing]) {
      if (++s.n_closing == budget_->closing.size()) s.at = At::over;
      return s;
    }
    s.n_closing = 0;
    if (id == (s.at == At::start ? budget_->open_id : budget_->close_id)) {
      s.at = s.at == At::start ? At::inside : At::over;
      s.n_matched = 0;
      return s;
    }
    if (s.at == At::inside) ++s.n_thought;
    const bool has_text = budget_->vocabulary->known(id) && !budget_->vocabulary->bytes(id).empty();
    if (has_text)
      read(budget_->vocabulary->bytes(id), s);
    else if (s.at == At::start)
      s.at = At::over;
    return s;
  }

  void read(std::string_view bytes, State& s) const {
    for (const char c : bytes) {
      if (s.at == At::over) return;
      const bool begins = s.at == At::start;
      const std::string& mark = begins ? budget_->open : budget_->close;
      if (begins && s.n_matched == 0 && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) continue;
      const bool by_token = (begins ? budget_->open_id : budget_->close_id) >= 0;
      if (begins && (by_token || mark[s.n_matched] != c)) {
        s.at = At::over;
        return;
      }
      if (by_token) return;
      while (s.n_matched > 0 && mark[s.n_matched] != c) s.n_matched = border(mark, s.n_matched);
      if (mark[s.n_matched] == c) ++s.n_matched;
      if (s.n_matched < mark.size()) continue;
      s.at = begins ? At::inside : At::over;
      s.n_matched = 0;
    }
  }

  // The longest proper prefix of the first n bytes that they end with.
  static uint8_t border(std::string_view mark, size_t n) {
    size_t k = n - 1;
    while (k > 0 && mark.substr(0, k) != mark.substr(n - k, k)) --k;
    return static_cast<uint8_t>(k);
  }

  // Whether the prompt ends in the opening mark, but for white space.
  bool opened_by(std::span<const Token> prompt) const {
    std::string end;
    while (!prompt.empty() && end.size() < budget_->open.size() + kSpaces) {
      const Token id = prompt.back();
      if (id == budget_->open_id) return blank(end);
      if (!budget_->vocabulary->known(id) || budget_->vocabulary->bytes(id).empty()) return false;
      end.insert(0, budget_->vocabulary->bytes(id));
      const size_t last = end.find_last_not_of(" \n\r\t");
      if (last != std::string::npos && last + 1 >= budget_->open.size())
        return budget_->open_id < 0 && std::string_view(end).substr(0, last + 1).ends_with(budget_->open);
      prompt = prompt.first(prompt.size() - 1);
    }
    return false;
  }
  static bool blank(std::string_view text) { return text.find_first_not_of(" \n\r\t") == std::string_view::npos; }
  static constexpr size_t kSpaces = 64;

  const std::shared_ptr<const ThinkingBudget> budget_;
  const int n_vocab_;
  std::vector<State> states_;  // before the first token, and behind each
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  const bool none = c.sampling.thinking == nullptr || c.sampling.thinking->vocabulary == nullptr;
  return none ? nullptr : std::make_unique<LimitsThinking>(c);
}
QR_REGISTER(LogitsRuleEntry, "thinking_budget", {1, make});

}  // namespace
}  // namespace quire
