// Medusa's heads guess (Cai et al. 2024): from the hidden state that the due token was drawn from, head k tells the
// k-th token behind it. They know nothing of each other's guesses, so one product serves the first block of all heads
// and all sequences; each takes its likeliest token. No keys, no past: the target's pass leaves the states in memory of
// this proposer (Tap), and what it guesses depends on that row alone.
#include "model/medusa.h"

#include <algorithm>
#include <numeric>

#include "spec/drawn_alike.h"
#include "spec/proposer.h"
#include "tensor/arena.h"

namespace quire {
namespace {

class Medusa final : public Proposer {
 public:
  struct Memory {
    Arena tapped;  // rows of output of the target's pass
    Arena step;
  };
  Medusa(const ProposerOptions& most, const ProposerEnv& env, Memory memory)
      : max_draft_(most.max_draft),
        max_side_(most.max_side),
        heads_(*env.medusa),
        ops_(*env.ops),
        memory_(std::move(memory)) {
    const ModelInfo& info = env.target->info();
    n_embd_ = info.n_embd;
    n_vocab_ = info.n_vocab;
    tap_ = {Tap::At::last_norm, memory_.tapped.alloc_rows(env.n_out, n_embd_)};
  }

  // What `n` sequences need in a step that guess `depth` tokens each.
  static int64_t step_bytes(const ModelInfo& info, int64_t n, int64_t depth) {
    return Arena::row_bytes(n, info.n_embd) + Arena::row_bytes(n, info.n_embd * depth) +
           Arena::row_bytes(n, info.n_embd) + Arena::row_bytes(n, info.n_vocab) + 2 * Arena::row_bytes(n, 1);
  }

  int max_draft() const override { return max_draft_; }
  int max_side() const override { return max_side_; }
  std::span<const Tap> taps() const override { return {&tap_, 1}; }

  void propose(std::span<Draft> drafts) override {
    order_.clear();
    for (Draft& draft : drafts) {
      if (draft.tapped >= 0) order_.push_back(&draft);
    }
    if (order_.empty()) return;
    // Those that want most first: who wants a head's guess are the first so many of the rows.
    std::ranges::sort(order_, std::ranges::greater{}, &Draft::max_tokens);
    memory_.step.reset();
    const int depth = std::min(order_.front()->max_tokens, max_draft_);
    const Tensor first = first_blocks(depth);  // [n, depth · n_embd]
    for (int k = 0; k < depth; ++k) {
      const auto wants = [k](const Draft* draft) { return draft->max_tokens > k; };
      const auto n = std::ranges::partition_point(order_, wants) - order_.begin();
      guess(k, first.columns(k * n_embd_, n_embd_).rows(0, n));
    }
    for (size_t i = 0; i < order_.size(); ++i) add_side(likely_[i], *order_[i]);
  }

 private:
  // x + SiLU(W·x + b) of the first block of heads [0, depth), side by side.
  Tensor first_blocks(int depth) {
    const auto n = static_cast<int64_t>(order_.size());
    const Tensor rows = memory_.step.alloc(DType::i32, {n});
    for (int64_t i = 0; i < n; ++i) rows.ptr<int32_t>()[i] = order_[static_cast<size_t>(i)]->tapped;
    const Tensor x = memory_.step.alloc_rows(n, n_embd_);            // [n, n_embd]
    const Tensor out = memory_.step.alloc_rows(n, depth * n_embd_);  // [n, depth · n_embd]
    ops_.rows(x, tap_.out, rows);
    ops_.linear(out, x, std::span(heads_.blocks.front()).first(static_cast<size_t>(depth)));
    ops_.gated(out, out, {}, Activation::silu);
    for (int k = 0; k < depth; ++k) ops_.add(out.columns(k * n_embd_, n_embd_), x);
    return out;
  }

  // The k-th guess of the first x.dim(0) sequences; x is what the first block gave them, and is changed.
  void guess(int k, Tensor x) {
    const auto mark = memory_.step.mark();
    const auto head = static_cast<size_t>(k);
    const Tensor more = memory_.step.alloc_rows(x.dim(0), n_embd_);  // [n, n_embd]
    for (size_t j = 1; j < heads_.blocks.size(); ++j) {
      ops_.linear(more, x, std::span(heads_.blocks[j]).subspan(head, 1));
      ops_.gated(more, more, {}, Activation::silu);
      ops_.add(x, more);
    }
    const Tensor logits = memory_.step.alloc(DType::f32, {x.dim(0), n_vocab_});  // [n, n_vocab]
    ops_.linear(logits, x, std::span(heads_.out).subspan(head, 1));
    sampled_.resize(static_cast<size_t>(x.dim(0)));
    params_.clear();
    for (size_t i = 0; i < sampled_.size(); ++i)
      params_.push_back(beside(draw_likeliest(), k == 0 ? order_[i]->max_side : 0));
    ops_.sample(sampled_, logits, params_);
    for (size_t i = 0; i < sampled_.size(); ++i) take(k, sampled_[i], *order_[i]);
    if (k == 0) keep_likely();
    memory_.step.release(mark);
  }

  // What is likely beside each first guess.
  void keep_likely() {
    if (likely_.size() < order_.size()) likely_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      likely_[i].clear();
      for (const TopLogprob& each : sampled_[i].top) likely_[i].push_back(each.id);
    }
  }

  // A guess counts where all before it were made; behind an end token there is none.
  static void take(int k, const Sampled& sampled, Draft& draft) {
    if (!sampled.ok || std::ssize(draft.tokens) != k) return;
    const bool ended = k > 0 && std::ranges::find(draft.ends, draft.tokens.back()) != draft.ends.end();
    if (!ended) draft.tokens.push_back(sampled.token);
  }

  const int max_draft_, max_side_;
  const MedusaHeads& heads_;
  Ops& ops_;
  Memory memory_;
  int64_t n_embd_ = 0, n_vocab_ = 0;
  Tap tap_;
  // Of the call at hand; kept for their room.
  std::vector<Draft*> order_;
  std::vector<Sampled> sampled_;
  std::vector<SampleParams> params_;
  std::vector<std::vector<Token>> likely_;
};

int depth_of(const ProposerOptions& options, const ProposerEnv& env) {
  return std::min(options.max_draft, env.medusa->n_heads());
}
int64_t tapped_bytes(const ProposerEnv& env) { return Arena::row_bytes(env.n_out, env.target->info().n_embd); }
int64_t step_bytes(const ProposerOptions& options, const ProposerEnv& env) {
  return Medusa::step_bytes(env.target->info(), env.max_seqs, depth_of(options, env));
}
int64_t bytes(const ProposerOptions& options, const ProposerEnv& env) {
  return tapped_bytes(env) + step_bytes(options, env);
}

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv& env) {
  if (env.medusa == nullptr) return fail(Code::invalid, "the proposer \"medusa\" needs heads");
  const ModelInfo& info = env.target->info();
  if (!info.has_taps)
    return fail(Code::unsupported, "Medusa heads read hidden states, and a " + info.arch + " model gives none");
  QR_TRY(Buffer tapped, env.ops->allocate(tapped_bytes(env)));
  QR_TRY(Buffer step, env.ops->allocate_arena(step_bytes(options, env)));
  return std::make_unique<Medusa>(ProposerOptions{depth_of(options, env), options.max_side}, env,
                                  Medusa::Memory{Arena(std::move(tapped)), Arena(std::move(step))});
}
QR_REGISTER(ProposerEntry, "medusa", {make, bytes});

}  // namespace
}  // namespace quire
