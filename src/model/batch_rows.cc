#include "model/batch_rows.h"

#include <algorithm>

namespace quire {

int64_t BatchRows::bytes(const Size& most, int n_groups) {
  const int64_t of_group = most.n_rows + most.n_seqs * most.n_blocks;
  return (6 * most.n_rows + most.n_seqs + 1 + most.n_again + n_groups * (of_group + most.n_again)) * 4 +
         (15 + 3 * n_groups) * Arena::kAlign;
}

BatchRows::BatchRows(const Size& size, const KvLayout& layout, int block_tokens, Arena& arena)
    : layout_(layout), block_tokens_(block_tokens) {
  const auto ints = [&](int64_t n) { return arena.alloc(DType::i32, {n}); };
  batch_.ids = ints(size.n_rows);
  batch_.pos = ints(size.n_rows);
  batch_.out_rows = ints(size.n_out);
  batch_.attn.cu_q = ints(size.n_seqs + 1);
  batch_.attn.first_key = ints(size.n_rows);
  batch_.attn.end_key = ints(size.n_rows);
  batch_.attn.cu_q.ptr<int32_t>()[0] = 0;
  if (size.n_again > 0) batch_.again = ints(size.n_again);
  for (size_t g = 0; g < static_cast<size_t>(layout.n_groups()); ++g) {
    batch_.slots[g] = ints(size.n_rows);
    if (size.n_again > 0 && has_table(g)) batch_.again_slots[g] = ints(size.n_again);
    Tensor& blocks = batch_.attn.blocks[g];
    blocks = arena.alloc(DType::i32, {size.n_seqs, has_table(g) ? size.n_blocks : 1});
    if (has_table(g)) std::fill_n(blocks.ptr<int32_t>(), blocks.n_elements(), 0);
  }
}

bool BatchRows::has_table(size_t group) const {
  return layout_.group(static_cast<int>(group)).kind != KvGroup::Kind::state;
}

std::span<int32_t> BatchRows::table(size_t group) {
  const Tensor& blocks = batch_.attn.blocks[group];
  return {blocks.row<int32_t>(n_seqs_), static_cast<size_t>(blocks.dim(1))};
}

void BatchRows::add(const SequenceRows& rows) {
  const auto n_known = std::ssize(rows.tokens), n = n_known + std::ssize(rows.guesses);
  QR_DCHECK(n_seqs_ + 1 < batch_.attn.cu_q.dim(0) && n_rows_ + n <= batch_.ids.dim(0) && rows.n_out <= n);
  auto* ids = batch_.ids.ptr<int32_t>() + n_rows_;
  std::copy(rows.tokens.begin(), rows.tokens.end(), ids);
  std::copy(rows.guesses.begin(), rows.guesses.end(), ids + n_known);
  for (int64_t i = 0; i < n; ++i) {
    const auto position = rows.begin + static_cast<int32_t>(i);
    batch_.pos.ptr<int32_t>()[n_rows_ + i] = position;
    batch_.attn.first_key.ptr<int32_t>()[n_rows_ + i] = 0;
    batch_.attn.end_key.ptr<int32_t>()[n_rows_ + i] = position + 1 - rows.n_dropped;
  }
  for (size_t g = 0; g < static_cast<size_t>(layout_.n_groups()); ++g) {
    if (!has_table(g)) continue;
    put_slots(g, rows.begin - rows.n_dropped, n, batch_.slots[g].ptr<int32_t>() + n_rows_);
    if (rows.n_again == 0) continue;
    put_slots(g, rows.begin - rows.n_again, rows.n_again, batch_.again_slots[g].ptr<int32_t>() + n_again_);
  }
  for (int i = 0; i < rows.n_again; ++i) batch_.again.ptr<int32_t>()[n_again_++] = rows.first_again + i;
  n_rows_ += n;
  for (int64_t row = n_rows_ - rows.n_out; row < n_rows_; ++row) {
    batch_.out_rows.ptr<int32_t>()[n_out_++] = static_cast<int32_t>(row);
  }
  batch_.attn.cu_q.ptr<int32_t>()[++n_seqs_] = static_cast<int32_t>(n_rows_);
}

// Where keys and values of the next sequence's tokens from `begin` on go, as its table counts them.
void BatchRows::put_slots(size_t group, int begin, int64_t n, int32_t* to) const {
  const auto* blocks = batch_.attn.blocks[group].row<int32_t>(n_seqs_);
  for (int at = begin; at < begin + n; ++at) {
    *to++ = blocks[at / block_tokens_] * block_tokens_ + at % block_tokens_;
  }
}

Batch BatchRows::batch() const {
  QR_CHECK(batch_.again.empty() ? n_again_ == 0 : n_again_ == batch_.again.dim(0));
  QR_CHECK(n_rows_ == batch_.ids.dim(0) && n_out_ == batch_.out_rows.dim(0) && n_seqs_ + 1 == batch_.attn.cu_q.dim(0));
  return batch_;
}

}  // namespace quire
