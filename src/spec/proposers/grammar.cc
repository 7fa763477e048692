// Where a request's grammar leaves no choice the text that must come is the guess, cut as the tokenizer cuts it: keys
// of a schema, the marks of a call, the rest of a word once it is the only one. Its sequences alone have such guesses,
// and only where something is forced, so nobody else pays. It follows each answer with a matcher of its own, which
// takes in what the sequence got since it was asked last; the requests' rules stay where they are.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "sample/constraint.h"
#include "spec/proposer.h"
#include "text/grammar/forced_tokens.h"

namespace quire {
namespace {

constexpr size_t kBefore = 48;  // bytes in front of forced text that the tokenizer is shown at most

class Followed {
 public:
  explicit Followed(const Constraint& constraint)
      : vocabulary_(constraint.vocabulary), matcher_(constraint.grammar, constraint.vocabulary) {}

  // The answer so far; false: it is not of the grammar, or too much for the matcher.
  bool follow(std::span<const Token> answer) {
    while (matcher_.accepted() < answer.size()) {
      if (!matcher_.accept(answer[matcher_.accepted()])) return false;
    }
    return true;
  }
  std::vector<Token> forced(const Tokenizer& tokenizer, std::span<const Token> context, size_t most) {
    return forced_tokens(matcher_, *vocabulary_, tokenizer, text_before(context), most);
  }

 private:
  // Of the last tokens, back to one that has no text.
  std::string text_before(std::span<const Token> context) const {
    size_t first = context.size(), n_bytes = 0;
    for (; first > 0 && vocabulary_->known(context[first - 1]); --first) {
      const size_t n = vocabulary_->bytes(context[first - 1]).size();
      if (n == 0 || n_bytes + n > kBefore) break;
      n_bytes += n;
    }
    std::string out;
    for (const Token id : context.subspan(first)) out += vocabulary_->bytes(id);
    return out;
  }

  const std::shared_ptr<const TokenTrie> vocabulary_;
  Matcher matcher_;
};

class Forced final : public Proposer {
 public:
  Forced(int max_draft, const Tokenizer& tokenizer) : max_draft_(max_draft), tokenizer_(tokenizer) {}
  int max_draft() const override { return max_draft_; }

  int most(const Draft& draft) override {
    const Constraint* constraint = draft.sampling == nullptr ? nullptr : draft.sampling->constraint.get();
    if (constraint == nullptr || constraint->grammar == nullptr || constraint->vocabulary == nullptr) return 0;
    Known& known = known_[draft.seq];
    if (known.lost) return 0;
    if (known.n_context != draft.context.size() || known.n_most < draft.max_tokens) look(draft, *constraint, known);
    return std::min(static_cast<int>(known.forced.size()), draft.max_tokens);
  }

  void propose(std::span<Draft> drafts) override {
    for (Draft& draft : drafts) {
      if (const int n = most(draft); n > 0) {
        const std::vector<Token>& forced = known_[draft.seq].forced;
        draft.tokens.assign(forced.begin(), forced.begin() + n);
      }
    }
  }
  void forget(SeqId id) override { known_.erase(id); }

 private:
  struct Known {
    std::optional<Followed> answer;
    bool lost = false;  // the answer cannot be followed, so nothing is guessed any more
    // What is forced behind so many tokens, as many as n_most were looked for.
    size_t n_context = 0;
    int n_most = 0;
    std::vector<Token> forced;
  };

  void look(const Draft& draft, const Constraint& constraint, Known& known) {
    known.forced.clear();
    if (!known.answer) known.answer.emplace(constraint);
    known.n_context = draft.context.size();
    known.n_most = draft.max_tokens;
    known.lost = !known.answer->follow(draft.context.subspan(static_cast<size_t>(draft.n_prompt)));
    if (known.lost) return known.answer.reset();
    known.forced = known.answer->forced(tokenizer_, draft.context, static_cast<size_t>(draft.max_tokens));
  }

  const int max_draft_;
  const Tokenizer& tokenizer_;
  std::unordered_map<SeqId, Known> known_;
};

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv& env) {
  if (env.tokenizer == nullptr) {
    return fail(Code::invalid, "the proposer \"grammar\" needs the model's tokenizer, which is not there");
  }
  return std::make_unique<Forced>(options.max_draft, *env.tokenizer);
}
QR_REGISTER(ProposerEntry, "grammar", {make});

}  // namespace
}  // namespace quire
