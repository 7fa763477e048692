// repetition_penalty, presence_penalty, frequency_penalty. Which tokens count is a matter of dialect: with
// repeat_last_n all three see that many of the last tokens of prompt and answer (llama.cpp); without it the repetition
// penalty sees all of both, presence and frequency the answer only (vLLM, OpenAI).
#include <unordered_map>

#include "sample/rules.h"

namespace quire {
namespace {

class Penalties final : public LogitsRule {
 public:
  explicit Penalties(const RuleContext& c)
      : repetition_(c.sampling.repetition_penalty),
        presence_(c.sampling.presence_penalty),
        frequency_(c.sampling.frequency_penalty),
        windowed_(c.sampling.repeat_last_n.has_value() && *c.sampling.repeat_last_n >= 0),
        window_(windowed_ ? static_cast<size_t>(*c.sampling.repeat_last_n) : 0) {
    const bool prompt_counts = c.sampling.repeat_last_n.has_value();
    for (const Token id : c.prompt) {
      if (prompt_counts) {
        accept(id);
      } else {
        seen(id).in_prompt = true;
      }
    }
  }

  void edits(LogitEdits& out) const override {
    for (const Seen& s : seen_) {
      if (s.count == 0 && !s.in_prompt) continue;
      const float add = s.count == 0 ? 0.0F : -(frequency_ * static_cast<float>(s.count) + presence_);
      if (add != 0.0F || repetition_ != 1.0F) out.sparse.push_back({s.id, add, repetition_});
    }
  }
  void accept(Token id) override {
    Seen& s = seen(id);
    history_.push_back(id);
    ++s.count;
    if (windowed_ && history_.size() > window_) --seen(history_[history_.size() - 1 - window_]).count;
  }
  void rollback(int n) override {
    for (; n > 0; --n) {
      if (windowed_ && history_.size() > window_) ++seen(history_[history_.size() - 1 - window_]).count;
      --seen(history_.back()).count;
      history_.pop_back();
    }
  }

 private:
  struct Seen {
    Token id;
    int count = 0;
    bool in_prompt = false;
  };
  Seen& seen(Token id) {
    const auto at = places_.find(id);
    if (at != places_.end()) return seen_[at->second];
    seen_.push_back({id});
    try {
      places_.emplace(id, seen_.size() - 1);
    } catch (...) {
      seen_.pop_back();
      throw;
    }
    return seen_.back();
  }

  const float repetition_, presence_, frequency_;
  const bool windowed_;
  const size_t window_;
  std::vector<Token> history_;
  std::vector<Seen> seen_;  // each id once
  std::unordered_map<Token, size_t> places_;
};

std::unique_ptr<LogitsRule> make(const RuleContext& c) {
  const SamplingParams& s = c.sampling;
  if (s.repetition_penalty == 1.0F && s.presence_penalty == 0.0F && s.frequency_penalty == 0.0F) return nullptr;
  return std::make_unique<Penalties>(c);
}
QR_REGISTER(LogitsRuleEntry, "penalties", {1, make});

}  // namespace
}  // namespace quire
