#include "app/forward.h"

#include <algorithm>
#include <utility>

#include "model/batch_rows.h"

namespace quire {

Result<Forward> Forward::make(const Model& model, Ops& ops, int n_ctx, int max_chunk, int block_tokens) {
  const KvLayout& layout = model.info().kv_layout;
  QR_CHECK(block_tokens % kStripTokens == 0);
  const int n_blocks = (n_ctx + block_tokens - 1) / block_tokens;
  const int64_t batch_bytes =
      BatchRows::bytes({.n_rows = max_chunk, .n_seqs = 1, .n_blocks = n_blocks}, layout.n_groups());
  QR_TRY(Buffer scratch, ops.allocate_arena(model.arena_bytes(max_chunk, max_chunk) + batch_bytes));
  Forward out(model, ops, std::move(scratch), block_tokens);
  for (int g = 0; g < layout.n_groups(); ++g) {
    const int64_t block_bytes = layout.block_bytes(g, block_tokens);
    const bool is_state = layout.group(g).kind == KvGroup::Kind::state;
    Buffer& blocks = out.blocks_.emplace_back();
    if (block_bytes > 0) {
      QR_TRY(blocks, ops.allocate_blocks(is_state ? block_bytes : n_blocks * block_bytes));
    }
    out.kv_.groups[static_cast<size_t>(g)] = {blocks.data(), block_bytes, block_tokens};
  }
  out.kv_.n_groups = layout.n_groups();
  out.table_.resize(static_cast<size_t>(n_blocks));
  out.rewind(0);
  return out;
}

Result<Tensor> Forward::run(std::span<const Token> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const auto n_blocks = static_cast<int64_t>(table_.size());
  QR_CHECK(n_past_ + n <= n_blocks * block_tokens_);
  if (budget_.bounds() && n_past_ == budget_.n_prompt() && n_dropped_ == 0) drop();
  arena_.reset();
  BatchRows rows({n, n, 1, n_blocks}, model_->info().kv_layout, block_tokens_, arena_);
  const auto n_groups = static_cast<size_t>(kv_.n_groups);
  for (size_t g = 0; g < n_groups; ++g) {
    if (rows.has_table(g)) std::ranges::copy(table_, rows.table(g).begin());
  }
  rows.add({.begin = n_past_, .tokens = tokens, .n_out = static_cast<int>(n), .n_dropped = n_dropped_});
  Batch batch = rows.batch();
  const int64_t first = std::max(budget_.first_voting() - n_past_, 0);
  const VotingRows voting{.seq = 0, .begin = first, .end = n, .votes = budget_.votes()};
  const bool votes = budget_.bounds() && n_past_ < budget_.n_prompt() && first < n;
  QR_CHECK(!votes || n_past_ + n <= budget_.n_prompt());
  if (votes) batch.voting = {&voting, 1};
  for (size_t g = 0; g < n_groups; ++g) {
    if (!rows.has_table(g)) put_state(g, batch);
  }
  Pass pass;
  pass.batch = &batch;
  pass.arena = &arena_;
  pass.ops = ops_;
  pass.kv = kv_;
  const Tensor x = model_->layers(model_->embed(pass), LayerRange{0, model_->info().n_layers}, pass);
  n_past_ += static_cast<int>(n);
  const Tensor logits = model_->head(x, pass);
  QR_TRY_VOID(ops_->take_error());
  return logits;
}

// The blocks that are kept come first, in order; behind them those that are free now.
void Forward::drop() {
  const std::span<const int32_t> kept = budget_.choose();
  const auto n_prompt = static_cast<size_t>(budget_.n_blocks());
  std::vector<int32_t> table, free;
  for (size_t b = 0, next = 0; b < n_prompt; ++b) {
    const bool is_kept = next < kept.size() && static_cast<size_t>(kept[next]) == b;
    if (is_kept) ++next;
    (is_kept ? table : free).push_back(table_[b]);
  }
  table.insert(table.end(), table_.begin() + static_cast<std::ptrdiff_t>(n_prompt), table_.end());
  table.insert(table.end(), free.begin(), free.end());
  table_ = std::move(table);
  n_dropped_ = static_cast<int>(free.size()) * block_tokens_;
}

// One block is enough: the state behind the last row.
void Forward::put_state(size_t group, Batch& batch) const {
  const Tensor& to = batch.slots[group];
  std::fill_n(to.ptr<int32_t>(), to.dim(0), -1);
  to.ptr<int32_t>()[to.dim(0) - 1] = 0;
  batch.attn.blocks[group].ptr<int32_t>()[0] = n_past_ == 0 ? -1 : 0;
}

}  // namespace quire
