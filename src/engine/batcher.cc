#include "engine/batcher.h"

#include <algorithm>
#include <memory>

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

// One group's block tables, and where the rows' keys and values go.
void put_blocks(const Plan& plan, int block_tokens, size_t group, Batch& batch) {
  auto* slot = batch.slots[group].ptr<int32_t>();
  for (size_t s = 0; s < plan.grants.size(); ++s) {
    const Grant& grant = plan.grants[s];
    const std::vector<GroupBlocks>& table = grant.seq->kv.table;
    auto* blocks = batch.attn.blocks[group].row<int32_t>(static_cast<int64_t>(s));
    for (size_t b = 0; b < table.size(); ++b) blocks[b] = table[b][group] ? table[b][group].id() : 0;
    for (int i = 0; i < grant.n_tokens; ++i) {
      const int position = grant.seq->n_computed + i;
      *slot++ = blocks[position / block_tokens] * block_tokens + position % block_tokens;
    }
  }
}

// Which states are read, and where rows leave theirs: the last of a block's rows where the block has one, and the last.
void put_states(const Plan& plan, int block_tokens, size_t group, Batch& batch) {
  auto* from = batch.attn.blocks[group].ptr<int32_t>();
  auto* to = batch.slots[group].ptr<int32_t>();
  for (const Grant& grant : plan.grants) {
    const std::vector<GroupBlocks>& table = grant.seq->kv.table;
    const auto state_of = [&](int position) {
      const BlockRef& block = table[static_cast<size_t>(position / block_tokens)][group];
      return block ? block.id() : -1;
    };
    const int begin = grant.seq->n_computed, end = begin + grant.n_tokens;
    *from++ = begin == 0 ? -1 : state_of(begin - 1);
    for (int position = begin; position < end; ++position) {
      const bool is_last = (position + 1) % block_tokens == 0 || position + 1 == end;
      *to++ = is_last ? state_of(position) : -1;
    }
    QR_CHECK((begin == 0 || from[-1] >= 0) && to[-1] >= 0, "a sequence has no state to go on with");
  }
}

// Runs of rows that have the same adapter, in the arena.
std::span<const AdapterRows> put_adapters(const Plan& plan, Arena& arena) {
  if (std::ranges::all_of(plan.grants, [](const Grant& grant) { return grant.adapter() == nullptr; })) return {};
  const auto n_most = static_cast<int64_t>(plan.grants.size() * sizeof(AdapterRows));
  auto* out = reinterpret_cast<AdapterRows*>(arena.alloc(DType::u8, {n_most}).data);
  size_t n = 0;
  int64_t row = 0;
  for (const Grant& grant : plan.grants) {
    const int64_t end = row + grant.n_tokens;
    const bool goes_on = n > 0 && out[n - 1].end == row && out[n - 1].adapter == grant.adapter();
    if (goes_on) {
      out[n - 1].end = end;
    } else if (grant.adapter() != nullptr) {
      std::construct_at(out + n++, AdapterRows{grant.adapter(), row, end});
    }
    row = end;
  }
  return {out, n};
}

}  // namespace

int64_t batch_bytes(const BatchSize& most) {
  const int64_t table = most.n_seqs * (most.n_ctx / most.block_tokens + 2);
  const int64_t group = most.n_tokens + table;
  const auto adapters = most.n_seqs * static_cast<int64_t>(sizeof(AdapterRows));
  return (6 * most.n_tokens + most.n_seqs + 1 + most.n_groups * group) * 4 + adapters +
         (15 + 2 * most.n_groups) * Arena::kAlign;
}

Batch build_batch(const Plan& plan, const KvLayout& layout, int block_tokens, Arena& arena) {
  const auto ints = [&](int64_t n) { return arena.alloc(DType::i32, {n}); };
  const auto n_seqs = static_cast<int64_t>(plan.grants.size());
  Batch batch;
  batch.ids = ints(plan.n_tokens);
  batch.pos = ints(plan.n_tokens);
  batch.out_rows = ints(plan.n_out);
  batch.attn.cu_q = ints(n_seqs + 1);
  batch.attn.first_key = ints(plan.n_tokens);
  batch.attn.end_key = ints(plan.n_tokens);
  for (size_t g = 0; g < static_cast<size_t>(layout.n_groups()); ++g) {
    batch.slots[g] = ints(plan.n_tokens);
    if (layout.group(static_cast<int>(g)).kind == KvGroup::Kind::state) {
      batch.attn.blocks[g] = arena.alloc(DType::i32, {n_seqs, 1});
      put_states(plan, block_tokens, g, batch);
      continue;
    }
    batch.attn.blocks[g] = arena.alloc(DType::i32, {n_seqs, max_blocks(plan)});
    std::fill_n(batch.attn.blocks[g].ptr<int32_t>(), batch.attn.blocks[g].n_elements(), 0);
    put_blocks(plan, block_tokens, g, batch);
  }
  int32_t row = 0;
  int32_t n_out = 0;
  for (int64_t s = 0; s < n_seqs; ++s) {
    const Grant& grant = plan.grants[static_cast<size_t>(s)];
    const Sequence& seq = *grant.seq;
    batch.attn.cu_q.ptr<int32_t>()[s] = row;
    for (int i = 0; i < grant.n_tokens; ++i, ++row) {
      const int position = seq.n_computed + i;
      batch.ids.ptr<int32_t>()[row] = token_at(seq, position);
      batch.pos.ptr<int32_t>()[row] = position;
      batch.attn.first_key.ptr<int32_t>()[row] = 0;
      batch.attn.end_key.ptr<int32_t>()[row] = position + 1;
    }
    for (int32_t i = row - grant.n_out; i < row; ++i) batch.out_rows.ptr<int32_t>()[n_out++] = i;
  }
  batch.attn.cu_q.ptr<int32_t>()[n_seqs] = row;
  batch.adapters = put_adapters(plan, arena);
  return batch;
}

}  // namespace quire
