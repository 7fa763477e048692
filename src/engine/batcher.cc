#include "engine/batcher.h"

#include <algorithm>
#include <memory>

#include "kv/block_ids.h"
#include "model/batch_rows.h"

namespace quire {
namespace {

// Tables grow by so many blocks, so that what follows them in the arena lies where it lay in the step before: a device
// replays steps that are alike (backend/cuda/replays.h).
constexpr int64_t kBlocksTogether = 8;

int64_t max_blocks(const Plan& plan) {
  size_t out = 1;
  for (const Grant& grant : plan.grants) out = std::max(out, grant.seq->kv.table.size());
  return (static_cast<int64_t>(out) + kBlocksTogether - 1) / kBlocksTogether * kBlocksTogether;
}

// A sequence's own tokens, then its draft's.
SequenceRows rows_of(const Grant& grant) {
  const std::span<const Token> tokens(grant.seq->tokens), draft(grant.seq->draft);
  const auto begin = static_cast<size_t>(grant.seq->n_computed), n = static_cast<size_t>(grant.n_tokens);
  const size_t n_known = std::min(n, tokens.size() - begin);
  return {grant.seq->n_computed, tokens.subspan(begin, n_known), draft.first(n - n_known), grant.n_out};
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
    const int64_t end = row + grant.n_tokens, begin = end - grant.n_adapted();
    const bool goes_on = n > 0 && out[n - 1].end == begin && out[n - 1].adapter == grant.adapter();
    if (goes_on) {
      out[n - 1].end = end;
    } else if (grant.adapter() != nullptr) {
      std::construct_at(out + n++, AdapterRows{grant.adapter(), begin, end});
    }
    row = end;
  }
  return {out, n};
}

}  // namespace

int64_t batch_bytes(const BatchSize& most) {
  const int64_t n_blocks = most.n_ctx / most.block_tokens + 1 + kBlocksTogether;
  const auto adapters = most.n_seqs * static_cast<int64_t>(sizeof(AdapterRows));
  return BatchRows::bytes({.n_rows = most.n_tokens, .n_seqs = most.n_seqs, .n_blocks = n_blocks}, most.n_groups) +
         adapters + Arena::kAlign;
}

Batch build_batch(const Plan& plan, const KvLayout& layout, int block_tokens, Arena& arena) {
  const auto n_groups = static_cast<size_t>(layout.n_groups());
  BatchRows rows({plan.n_tokens, plan.n_out, std::ssize(plan.grants), max_blocks(plan)}, layout, block_tokens, arena);
  for (const Grant& grant : plan.grants) {
    for (size_t g = 0; g < n_groups; ++g) {
      if (rows.has_table(g)) put_block_ids(grant.seq->kv, g, rows.table(g));
    }
    rows.add(rows_of(grant));
  }
  Batch batch = rows.batch();
  for (size_t g = 0; g < n_groups; ++g) {
    if (!rows.has_table(g)) put_states(plan, block_tokens, g, batch);
  }
  batch.adapters = put_adapters(plan, arena);
  return batch;
}

}  // namespace quire
