#include "engine/step_pass.h"

#include <algorithm>
#include <utility>

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

bool StepPass::prepare_ahead() {
  const int64_t n = sent_rows(model_.info().n_vocab, options_);
  if (n == 0) return false;
  const int64_t bytes = sent_bytes(model_.info().n_vocab, options_) / 2;
  Result<Buffer> picked = ops_.allocate(n * 4), first = ahead_.allocate_sent(bytes);
  Result<Buffer> second = ahead_.allocate_sent(bytes);
  if (!picked || !first || !second) return false;
  picked_ = std::move(*picked);
  sent_ = {std::move(*first), std::move(*second)};
  n_sent_rows_ = static_cast<int>(n);
  return true;
}

// Whether tables of the plan, and of the next one of the same sequences, which may have a block more each, have the two
// places that Tables has. In the arena they would be written anew while the step that reads them runs.
bool StepPass::fit_tables(const Plan& plan) const {
  if (tables_ == nullptr) return true;  // ops are over when they return
  size_t n_blocks = 0;
  for (const Grant& grant : plan.grants) n_blocks = std::max(n_blocks, grant.seq->kv.table.size() + 1);
  return batch_bytes({.n_tokens = plan.n_tokens,
                      .n_seqs = std::ssize(plan.grants),
                      .n_ctx = static_cast<int64_t>(n_blocks) * options_.block_tokens,
                      .block_tokens = options_.block_tokens,
                      .n_groups = model_.info().kv_layout.n_groups()}) <= tables_->bytes;
}

StepRows StepPass::sent(int slot, int first, int64_t n) const {
  const int64_t n_vocab = model_.info().n_vocab;
  std::byte* data = sent_[static_cast<size_t>(slot)].data();
  const Tensor logits = Tensor::dense(data, DType::f32, {n_sent_rows_, n_vocab});
  const Tensor picked = Tensor::dense(data + n_sent_rows_ * n_vocab * 4, DType::i32, {n_sent_rows_});
  return {logits.rows(first, n), picked.rows(first, n)};
}

// The next step's rows go on with what was picked.
static Status check_picked(Tensor picked, std::span<const Sampled> sampled) {
  for (size_t i = 0; i < sampled.size(); ++i) {
    const Token id = picked.ptr<int32_t>()[i];
    if (!sampled[i].ok || sampled[i].token == id) continue;
    return fail(Code::internal, "the device went on with token " + std::to_string(id) + ", where " +
                                    std::to_string(sampled[i].token) + " was drawn");
  }
  return {};
}

void StepPass::ask(const Plan& plan, const KvView& kv, Laps& laps) {
  QR_DCHECK(n_asked_ - n_taken_ < 2 && plan.n_out <= n_sent_rows_);
  arena_.reset();
  Batch batch = build_batch(plan, model_.info().kv_layout, options_.block_tokens, arena_);
  QR_CHECK(tables_ == nullptr || batch.voting.empty(), "a device may still read the step before's, which lie here");
  const Tensor from = put_ids_from(plan, arena_), numbers = put_pick_numbers(plan, arena_);
  const Tensor picked = Tensor::dense(picked_.data(), DType::i32, {n_sent_rows_});
  if (!from.empty()) {
    // Not among the tables: these are the host's.
    const Tensor ids = Tensor::dense(arena_.alloc(DType::f32, {plan.n_tokens}).data, DType::i32, {plan.n_tokens});
    ahead_.take_picked(ids, batch.ids, picked, from);
    batch.ids = ids;
  }
  laps.lap(Stage::batch);
  const Pass pass{&batch, kv, &arena_, &ops_, taps_};
  const Tensor logits = model_.head(layers(model_.embed(pass), pass), pass);
  ahead_.pick(picked, logits, numbers);
  const auto slot = static_cast<int>(n_asked_++ % 2);
  ahead_.send(sent(slot, 0, plan.n_out), {logits, picked.rows(0, plan.n_out)}, slot);
  laps.lap(Stage::forward);
}

Status StepPass::take(const Plan& plan, Laps& laps) {
  const std::span<const SampleParams> params = params_.make(plan, ops_);
  const auto slot = static_cast<int>(n_taken_ % 2);
  QR_TRY_VOID(ahead_.arrived(slot));
  laps.lap(Stage::forward);
  ++n_taken_;
  prompt_rows_.scored.clear();
  prompt_rows_.pooled.clear();
  n_sampled_ = static_cast<size_t>(plan.n_out);
  for (size_t i = 0, end = 0; i < n_sampled_; i = end) {
    const int first = plan.grants[i].first_out;
    for (end = i + 1; end < n_sampled_ && plan.grants[end].first_out == first + static_cast<int>(end - i);) ++end;
    const StepRows rows = sent(slot, first, static_cast<int64_t>(end - i));
    const std::span<Sampled> out = sampled().subspan(i, end - i);
    ahead_.sample_sent(out, rows.logits, params.subspan(i, end - i));
    QR_TRY_VOID(check_picked(rows.picked, out));
  }
  laps.lap(Stage::sample);
  return {};
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
