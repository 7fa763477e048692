#include "spec/draft_pass.h"

#include <algorithm>

namespace quire {

int64_t DraftPass::bytes(const Model& model, const Size& most) {
  const int64_t groups = model.info().kv_layout.n_groups();
  const int64_t table = int64_t{most.n_seqs} * (most.n_ctx / most.block_tokens + 2);
  const int64_t ints = 6 * int64_t{most.n_rows} + most.n_seqs + 1 + groups * (most.n_rows + table);
  return model.arena_bytes(most.n_rows, most.n_seqs) + ints * 4 + (14 + 2 * groups) * Arena::kAlign;
}

std::span<const Sampled> DraftPass::run(std::span<const DraftRows> rows,
                                        std::span<const SampleParams> params,
                                        const KvView& kv) {
  arena_.reset();
  const Batch batch = batch_of(rows, static_cast<int64_t>(params.size()));
  const Pass pass{&batch, kv, &arena_, &ops_};
  const Tensor x = model_.layers(model_.embed(pass), LayerRange{0, model_.info().n_layers}, pass);
  sampled_.resize(params.size());
  if (!params.empty()) ops_.sample(sampled_, model_.head(x, pass), params);
  return sampled_;
}

// One group's block tables, and where the rows' keys and values go.
void DraftPass::put_blocks(std::span<const DraftRows> rows, size_t group, Batch& batch) const {
  auto* slot = batch.slots[group].ptr<int32_t>();
  for (size_t s = 0; s < rows.size(); ++s) {
    const std::vector<PrefixTree::Blocks>& table = rows[s].kv->table;
    auto* blocks = batch.attn.blocks[group].row<int32_t>(static_cast<int64_t>(s));
    for (size_t b = 0; b < table.size(); ++b) blocks[b] = table[b][group] ? table[b][group].id() : 0;
    for (int i = 0; i < std::ssize(rows[s].tokens); ++i) {
      const int position = rows[s].begin + i;
      *slot++ = blocks[position / size_.block_tokens] * size_.block_tokens + position % size_.block_tokens;
    }
  }
}

Batch DraftPass::batch_of(std::span<const DraftRows> rows, int64_t n_out) {
  const auto ints = [&](int64_t n) { return arena_.alloc(DType::i32, {n}); };
  const auto n_seqs = static_cast<int64_t>(rows.size());
  int64_t n_rows = 0;
  size_t most_blocks = 1;
  for (const DraftRows& r : rows) {
    n_rows += std::ssize(r.tokens);
    most_blocks = std::max(most_blocks, r.kv->table.size());
  }
  Batch batch;
  batch.ids = ints(n_rows);
  batch.pos = ints(n_rows);
  batch.out_rows = ints(n_out);
  batch.attn.cu_q = ints(n_seqs + 1);
  batch.attn.first_key = ints(n_rows);
  batch.attn.end_key = ints(n_rows);
  for (size_t g = 0; g < static_cast<size_t>(model_.info().kv_layout.n_groups()); ++g) {
    batch.slots[g] = ints(n_rows);
    batch.attn.blocks[g] = arena_.alloc(DType::i32, {n_seqs, static_cast<int64_t>(most_blocks)});
    std::fill_n(batch.attn.blocks[g].ptr<int32_t>(), batch.attn.blocks[g].n_elements(), 0);
    put_blocks(rows, g, batch);
  }
  int32_t row = 0, out = 0;
  for (int64_t s = 0; s < n_seqs; ++s) {
    const DraftRows& r = rows[static_cast<size_t>(s)];
    batch.attn.cu_q.ptr<int32_t>()[s] = row;
    for (int i = 0; i < std::ssize(r.tokens); ++i, ++row) {
      batch.ids.ptr<int32_t>()[row] = r.tokens[static_cast<size_t>(i)];
      batch.pos.ptr<int32_t>()[row] = r.begin + i;
      batch.attn.first_key.ptr<int32_t>()[row] = 0;
      batch.attn.end_key.ptr<int32_t>()[row] = r.begin + i + 1;
    }
    if (r.wants_next) batch.out_rows.ptr<int32_t>()[out++] = row - 1;
  }
  batch.attn.cu_q.ptr<int32_t>()[n_seqs] = row;
  return batch;
}

}  // namespace quire
