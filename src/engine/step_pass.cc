#include "engine/step_pass.h"

#include "base/log.h"
#include "engine/batcher.h"
#include "engine/limits.h"

namespace quire {

void StepPass::reserve() {
  const auto n_out = static_cast<size_t>(max_out_rows(options_)), n_rows = static_cast<size_t>(options_.step_tokens);
  params_.reserve(n_out);
  sampled_.resize(n_out);
  prompt_rows_.scored.reserve(n_rows);
  prompt_rows_.pooled.reserve(n_rows);
  scores_.reserve(n_rows, n_out);
}

// In parts where somebody reads what is between them. What a part leaves in the arena is not needed by the next.
Tensor StepPass::layers(Tensor x, const Pass& pass) {
  int begin = 0;
  for (const StreamTap& tap : all_rows_) {
    const int64_t n = x.dim(0);
    const auto mark = arena_.mark();
    x = model_.layers(x, LayerRange{begin, tap.n_layers}, pass);
    arena_.release(mark);
    begin = tap.n_layers;
    // Of a wider stream the first n_embd columns are what is read.
    ops_.rows(tap.out.rows(0, n), x.columns(0, tap.out.dim(1)), tap.rows.rows(0, n));
  }
  return model_.layers(x, LayerRange{begin, model_.info().n_layers}, pass);
}

Status StepPass::run(const Plan& plan, const KvView& kv, Laps& laps) {
  // Of a proposer, whose guesses are verified whatever became of its own passes.
  if (const Status guessed = ops_.take_error(); !guessed) log_warn("a guess failed: " + guessed.error().message);
  arena_.reset();
  const Batch batch = build_batch(plan, model_.info().kv_layout, options_.block_tokens, arena_);
  laps.lap(Stage::batch);
  const Pass pass{&batch, kv, &arena_, &ops_, taps_};
  const Tensor x = layers(model_.embed(pass), pass);
  prompt_rows_.find(plan);
  const int most = max_out_rows(options_);
  scores_.take(prompt_rows_.scored, x, pass, model_, most);
  Pooling::take(prompt_rows_.pooled, x, pass, model_, most);
  n_sampled_ = static_cast<size_t>(plan.n_out);
  if (sampled_.size() < n_sampled_) sampled_.resize(n_sampled_);
  if (plan.n_out == 0) {
    ops_.finish();
    laps.lap(Stage::forward);
    return ops_.take_error();
  }
  const Tensor logits = model_.head(x, pass);
  laps.lap(Stage::forward);
  ops_.sample(sampled(), logits, params_.make(plan, ops_));
  laps.lap(Stage::sample);
  return ops_.take_error();
}

void StepPass::write(const Plan& plan, const KvView& kv, const VirtualTokens& tokens) {
  if (!tokens.write) return;
  arena_.reset();
  const Batch batch = build_batch(plan, model_.info().kv_layout, options_.block_tokens, arena_);
  tokens.write({&batch, kv, &arena_, &ops_}, plan.grants.front().seq->n_computed);
  const Status done = ops_.take_error();
  if (written_) written_ = done;
}

}  // namespace quire
