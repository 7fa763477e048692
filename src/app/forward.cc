#include "app/forward.h"

#include <algorithm>

namespace quire {

Result<Forward> Forward::make(const Model& model, Ops& ops, int n_ctx, int max_chunk, int block_tokens) {
  const KvLayout& layout = model.info().kv_layout;
  QR_CHECK(block_tokens % kKvGroup == 0);
  const int n_blocks = (n_ctx + block_tokens - 1) / block_tokens;
  const int64_t n_groups = layout.n_groups();
  const int64_t ints = int64_t{max_chunk} * (5 + n_groups) + n_groups * n_blocks;
  const int64_t batch_bytes = ints * 4 + (14 + 2 * n_groups) * Arena::kAlign;
  QR_TRY(Buffer scratch, ops.allocate(model.arena_bytes(max_chunk, max_chunk) + batch_bytes));
  Forward out(model, ops, std::move(scratch), block_tokens);
  for (int g = 0; g < layout.n_groups(); ++g) {
    const int64_t block_bytes = layout.block_bytes(g, block_tokens);
    const bool is_state = layout.group(g).kind == KvGroup::Kind::state;
    Buffer& blocks = out.blocks_.emplace_back();
    if (block_bytes > 0) {
      QR_TRY(blocks, ops.allocate(is_state ? block_bytes : n_blocks * block_bytes));
    }
    out.kv_.groups[static_cast<size_t>(g)] = {blocks.data(), block_bytes, block_tokens};
  }
  out.kv_.n_groups = layout.n_groups();
  out.n_blocks_ = n_blocks;
  return out;
}

Tensor Forward::ints(int64_t n) { return arena_.alloc(DType::i32, {n}); }

Tensor Forward::run(std::span<const Token> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  QR_CHECK(n_past_ + n <= int64_t{n_blocks_} * block_tokens_);
  arena_.reset();
  Batch batch;
  batch.ids = ints(n);
  batch.pos = ints(n);
  batch.out_rows = ints(n);
  batch.attn.cu_q = ints(2);
  batch.attn.first_key = ints(n);
  batch.attn.end_key = ints(n);
  batch.attn.cu_q.ptr<int32_t>()[0] = 0;
  batch.attn.cu_q.ptr<int32_t>()[1] = static_cast<int32_t>(n);
  for (int32_t i = 0; i < n; ++i) {
    batch.ids.ptr<int32_t>()[i] = tokens[static_cast<size_t>(i)];
    batch.pos.ptr<int32_t>()[i] = n_past_ + i;
    batch.out_rows.ptr<int32_t>()[i] = i;
    batch.attn.first_key.ptr<int32_t>()[i] = 0;
    batch.attn.end_key.ptr<int32_t>()[i] = n_past_ + i + 1;
  }
  for (int g = 0; g < kv_.n_groups; ++g) {
    const bool is_state = model_->info().kv_layout.group(g).kind == KvGroup::Kind::state;
    is_state ? put_state(static_cast<size_t>(g), batch) : put_blocks(static_cast<size_t>(g), batch);
  }
  Pass pass;
  pass.batch = &batch;
  pass.arena = &arena_;
  pass.ops = ops_;
  pass.kv = kv_;
  const Tensor x = model_->layers(model_->embed(pass), LayerRange{0, model_->info().n_layers}, pass);
  n_past_ += static_cast<int>(n);
  return model_->head(x, pass);
}

// One block is enough: the state behind the last row.
void Forward::put_state(size_t group, Batch& batch) {
  const int64_t n = batch.ids.dim(0);
  batch.slots[group] = ints(n);
  std::fill_n(batch.slots[group].ptr<int32_t>(), n, -1);
  batch.slots[group].ptr<int32_t>()[n - 1] = 0;
  batch.attn.blocks[group] = arena_.alloc(DType::i32, {1, 1});
  batch.attn.blocks[group].ptr<int32_t>()[0] = n_past_ == 0 ? -1 : 0;
}

// Blocks in falling order, so that a mistake with the table shows. Windows keep every block too.
void Forward::put_blocks(size_t group, Batch& batch) {
  const int64_t n = batch.ids.dim(0);
  batch.slots[group] = ints(n);
  batch.attn.blocks[group] = arena_.alloc(DType::i32, {1, n_blocks_});
  for (int b = 0; b < n_blocks_; ++b) batch.attn.blocks[group].ptr<int32_t>()[b] = n_blocks_ - 1 - b;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t pos = n_past_ + i;
    batch.slots[group].ptr<int32_t>()[i] = (n_blocks_ - 1 - pos / block_tokens_) * block_tokens_ + pos % block_tokens_;
  }
}

}  // namespace quire
