#include "engine/step_pass.h"

#include <algorithm>
#include <exception>

#include "engine/batcher.h"

namespace quire {

void StepPass::run(const Plan& plan, const KvView& kv, Laps& laps) {
  arena_.reset();
  const Batch batch = build_batch(plan, options_.block_tokens, arena_);
  laps.lap(Stage::batch);
  const Pass pass{&batch, kv, &arena_, &ops_};
  const Tensor x = model_.layers(model_.embed(pass), LayerRange{0, model_.info().n_layers}, pass);
  prompt_rows_.find(plan);
  const int most = std::min(options_.max_seqs, options_.step_tokens);
  scores_.take(prompt_rows_.scored, x, pass, model_, most);
  Pooling::take(prompt_rows_.pooled, x, pass, model_, most);
  sampled_.resize(static_cast<size_t>(plan.n_out));
  if (plan.n_out == 0) return laps.lap(Stage::forward);
  const Tensor logits = model_.head(x, pass);
  laps.lap(Stage::forward);
  params_.clear();
  for (const Grant& grant : plan.grants) {
    if (grant.wants_output) add_params(*grant.seq);
  }
  ops_.sample(sampled_, logits, params_);
  laps.lap(Stage::sample);
}

// A rule is its request's own code: what it throws ends that request and nobody else's.
void StepPass::add_params(Sequence& seq) {
  seq.edits.bitmask.clear();
  const SharedList<Edit>& bias = seq.request.sampling.logit_bias;
  seq.edits.sparse.assign(bias.begin(), bias.end());
  try {
    for (const auto& rule : seq.request.rules) rule->edits(seq.edits);
  } catch (const std::exception& error) {
    seq.fault = error.what();
  }
  params_.push_back(sample_params(seq.request.sampling, static_cast<int64_t>(seq.tokens.size()), &seq.edits));
  for (const auto& rule : seq.request.rules) rule->shape(params_.back());
}

}  // namespace quire
