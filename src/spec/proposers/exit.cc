// The first layers of the target and its head write ahead, the other layers verify (LayerSkip, Elhoushi et al. 2024).
// Keys and values of these layers are the target's own: those of the past are there, and those of a guess are written
// where the step will write them again, with the same bits. So there is no cache beside the target's, no second pass
// over a prompt, and a hit or a preemption takes nothing away. Every round of guesses is one pass over all sequences
// that still want one, and a guess is drawn as the target draws.
#include <algorithm>
#include <string>

#include "spec/draft_pass.h"
#include "spec/drawn_alike.h"
#include "spec/proposer.h"

namespace quire {
namespace {

class EarlyExit final : public Proposer {
 public:
  EarlyExit(int max_draft, const ProposerEnv& env, const DraftPass::Size& size, Buffer memory)
      : max_draft_(max_draft),
        n_vocab_(env.target->info().n_vocab),
        pass_(*env.target, *env.ops, size, std::move(memory)) {}

  int max_draft() const override { return max_draft_; }
  bool writes_ahead() const override { return true; }
  void write_into(const KvView& kv) override { kv_ = kv; }

  void propose(std::span<Draft> drafts) override {
    if (edits_.size() < drafts.size()) edits_.resize(drafts.size());
    wanting_.clear();
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (drafts[i].kv == nullptr) continue;
      put_biases(drafts[i], edits_[i]);
      wanting_.push_back({&drafts[i], &edits_[i]});
    }
    while (!wanting_.empty()) write_on();
  }

 private:
  struct Wanting {
    Draft* draft;
    const LogitEdits* edits;
  };

  // The next guess of everyone that wants one more: behind the due token, then behind the last guess.
  void write_on() {
    rows_.clear();
    params_.clear();
    for (const Wanting& each : wanting_) {
      const Draft& draft = *each.draft;
      const auto n_guessed = static_cast<int>(draft.tokens.size());
      const int due = draft.n_before + static_cast<int>(draft.context.size()) - 1;
      const auto last = n_guessed == 0 ? draft.context.last(1) : std::span<const Token>(draft.tokens).last(1);
      rows_.push_back({draft.kv, due + n_guessed, last, true});
      params_.push_back(draw_alike(draft, *each.edits));
    }
    const std::span<const Sampled> sampled = pass_.run(rows_, params_, kv_);
    size_t n = 0;
    for (size_t i = 0; i < wanting_.size(); ++i) {
      const Wanting each = wanting_[i];
      if (take_drawn(sampled[i], n_vocab_, *each.draft)) wanting_[n++] = each;
    }
    wanting_.resize(n);
  }

  const int max_draft_, n_vocab_;
  DraftPass pass_;
  KvView kv_;
  // Of the call at hand; kept for their room.
  std::vector<LogitEdits> edits_;
  std::vector<Wanting> wanting_;
  std::vector<DraftRows> rows_;
  std::vector<SampleParams> params_;
};

DraftPass::Size size_of(const ProposerEnv& env) {
  return {env.max_seqs, env.max_seqs, env.n_ctx, env.block_tokens, env.exit_layers};
}

int64_t bytes(const ProposerOptions&, const ProposerEnv& env) { return DraftPass::bytes(*env.target, size_of(env)); }

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv& env) {
  const ModelInfo& info = env.target->info();
  if (env.exit_layers < 1 || env.exit_layers >= info.n_layers) {
    return fail(Code::invalid, "the proposer \"exit\" must leave the model after 1 to " +
                                   std::to_string(info.n_layers - 1) + " of its " + std::to_string(info.n_layers) +
                                   " layers, got " + std::to_string(env.exit_layers));
  }
  QR_TRY_VOID(check_can_draft(info));
  QR_TRY(Buffer memory, env.ops->allocate_arena(bytes(options, env)));
  return std::make_unique<EarlyExit>(options.max_draft, env, size_of(env), std::move(memory));
}
QR_REGISTER(ProposerEntry, "exit", {make, bytes});

}  // namespace
}  // namespace quire
