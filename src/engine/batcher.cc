#include "engine/batcher.h"

#include <algorithm>

namespace quire {
namespace {

// Token at `position`, in the sequence's own or its draft.
Token token_at(const Sequence& seq, int position) {
  const auto i = static_cast<size_t>(position);
  return i < seq.tokens.size() ? seq.tokens[i] : seq.draft[i - seq.tokens.size()];
}

int64_t max_blocks(const Plan& plan) {
  size_t out = 1;
  for (const Grant& grant : plan.grants) out = std::max(out, grant.seq->kv.table.size());
  return static_cast<int64_t>(out);
}

}  // namespace

int64_t batch_bytes(int64_t n_tokens, int64_t n_seqs, int64_t n_ctx, int block_tokens) {
  const int64_t table = n_seqs * (n_ctx / block_tokens + 2);
  return (7 * n_tokens + n_seqs + 1 + table) * 4 + 16 * Arena::kAlign;
}

Batch build_batch(const Plan& plan, int block_tokens, Arena& arena) {
  const auto ints = [&](int64_t n) { return arena.alloc(DType::i32, {n}); };
  const auto n_seqs = static_cast<int64_t>(plan.grants.size());
  Batch batch;
  batch.ids = ints(plan.n_tokens);
  batch.pos = ints(plan.n_tokens);
  batch.slots = ints(plan.n_tokens);
  batch.out_rows = ints(plan.n_out);
  batch.attn.cu_q = ints(n_seqs + 1);
  batch.attn.first_key = ints(plan.n_tokens);
  batch.attn.end_key = ints(plan.n_tokens);
  batch.attn.blocks = arena.alloc(DType::i32, {n_seqs, max_blocks(plan)});
  std::fill_n(batch.attn.blocks.ptr<int32_t>(), batch.attn.blocks.n_elements(), 0);
  int32_t row = 0;
  int32_t n_out = 0;
  for (int64_t s = 0; s < n_seqs; ++s) {
    const Grant& grant = plan.grants[static_cast<size_t>(s)];
    const Sequence& seq = *grant.seq;
    batch.attn.cu_q.ptr<int32_t>()[s] = row;
    auto* blocks = batch.attn.blocks.row<int32_t>(s);
    for (size_t b = 0; b < seq.kv.table.size(); ++b) blocks[b] = seq.kv.table[b][0].id();
    for (int i = 0; i < grant.n_tokens; ++i, ++row) {
      const int position = seq.n_computed + i;
      batch.ids.ptr<int32_t>()[row] = token_at(seq, position);
      batch.pos.ptr<int32_t>()[row] = position;
      batch.slots.ptr<int32_t>()[row] = blocks[position / block_tokens] * block_tokens + position % block_tokens;
      batch.attn.first_key.ptr<int32_t>()[row] = 0;
      batch.attn.end_key.ptr<int32_t>()[row] = position + 1;
    }
    if (grant.wants_output) batch.out_rows.ptr<int32_t>()[n_out++] = row - 1;
  }
  batch.attn.cu_q.ptr<int32_t>()[n_seqs] = row;
  return batch;
}

}  // namespace quire
