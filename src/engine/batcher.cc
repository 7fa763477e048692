#include "engine/batcher.h"

#include <algorithm>
#include <memory>

#include "kv/block_ids.h"
#include "model/batch_rows.h"
#include "ops/pick.h"
#include "sample/sampling_params.h"

namespace quire {
namespace {

// Tables grow by so many blocks, so that what follows them in the arena lies where it lay in the step before: a device
// replays steps that are alike (backend/cuda/replays.h).
constexpr int64_t kBlocksTogether = 8;

// Of the plan's branches, in the order in which they were placed.
template <class F>
void for_each_branch(const Plan& plan, const F& f) {
  for (const Grant& grant : plan.grants) {
    if (grant.n_side == 0) continue;
    for (const Branch& branch : grant.seq->branches) f(grant, branch);
  }
}

int64_t max_blocks(const Plan& plan) {
  size_t out = 1;
  for (const Grant& grant : plan.grants) out = std::max(out, grant.seq->kv.table.size());
  for_each_branch(plan, [&](const Grant&, const Branch& branch) {
    out = std::max(out, branch.kv.n_shared + branch.kv.blocks.size());
  });
  return (static_cast<int64_t>(out) + kBlocksTogether - 1) / kBlocksTogether * kBlocksTogether;
}

// The branch's rows, the first of its sequence's being row `first`. Of the rows before them those that lie in its own
// blocks are written there too.
SequenceRows rows_of(const Grant& grant, const Branch& branch, int first, int block_tokens) {
  const int due = grant.seq->n_computed, begin = due + 1 + branch.n_shared;
  const int n_again = begin - std::max(due, static_cast<int>(branch.kv.n_shared) * block_tokens);
  return {.begin = begin,
          .tokens = branch.tokens,
          .n_out = static_cast<int>(branch.tokens.size()),
          .first_again = first + branch.n_shared + 1 - n_again,
          .n_again = n_again};
}

int64_t n_again(const Plan& plan, int block_tokens) {
  int64_t out = 0;
  for_each_branch(
      plan, [&](const Grant& grant, const Branch& branch) { out += rows_of(grant, branch, 0, block_tokens).n_again; });
  return out;
}

void add_branches(const Plan& plan, const KvLayout& layout, int block_tokens, BatchRows& rows) {
  int first = 0;
  for (const Grant& grant : plan.grants) {
    for (int b = 0; grant.n_side > 0 && b < grant.seq->branches.size(); ++b) {
      const Branch& branch = grant.seq->branches[b];
      for (size_t g = 0; g < static_cast<size_t>(layout.n_groups()); ++g) {
        put_block_ids(grant.seq->kv, branch.kv, g, rows.table(g));
      }
      rows.add(rows_of(grant, branch, first, block_tokens));
    }
    first += grant.n_tokens;
  }
}

// A sequence's own tokens, then its draft's.
SequenceRows rows_of(const Grant& grant) {
  const std::span<const Token> tokens(grant.seq->tokens), draft(grant.seq->draft);
  static constexpr Token kUnknown = 0;
  if (grant.ids_from >= 0) {
    return {.begin = grant.seq->n_computed,
            .tokens = std::span(&kUnknown, 1),
            .guesses = {},
            .n_out = 1,
            .n_dropped = grant.seq->kv.n_dropped};
  }
  const auto begin = static_cast<size_t>(grant.seq->n_computed), n = static_cast<size_t>(grant.n_tokens);
  const size_t n_known = std::min(n, tokens.size() - begin);
  return {.begin = grant.seq->n_computed,
          .tokens = tokens.subspan(begin, n_known),
          .guesses = draft.first(n - n_known),
          .n_out = grant.n_out,
          .n_dropped = grant.seq->kv.n_dropped};
}

// Which states are read, and where rows leave theirs: the last of a block's rows where the block has one, the last that
// is no guess, and each guess, since it is not known yet which of them will have been the last.
void put_states(const Plan& plan, int block_tokens, size_t group, Batch& batch) {
  auto* from = batch.attn.blocks[group].ptr<int32_t>();
  auto* to = batch.slots[group].ptr<int32_t>();
  for (const Grant& grant : plan.grants) {
    const std::vector<GroupBlocks>& table = grant.seq->kv.table;
    const auto state_of = [&](int position) {
      const BlockRef& block = table[static_cast<size_t>(position / block_tokens)][group];
      return block ? block.id() : -1;
    };
    const int begin = grant.seq->n_computed, end = begin + grant.n_tokens - grant.n_drafted;
    *from++ = begin == 0 ? -1 : state_of(begin - 1);
    for (int position = begin; position < end; ++position) {
      const bool is_last = (position + 1) % block_tokens == 0 || position + 1 == end;
      *to++ = is_last ? state_of(position) : -1;
    }
    const bool has_state = to[-1] >= 0;
    for (int i = 0; i < grant.n_drafted; ++i) *to++ = grant.seq->kv.guess_states[static_cast<size_t>(i)].id();
    QR_CHECK((begin == 0 || from[-1] >= 0) && has_state, "a sequence has no state to go on with");
  }
}

// The last rows of prompts that have a budget, in the arena.
std::span<const VotingRows> put_voting(const Plan& plan, Arena& arena) {
  const auto votes = [](const Grant& grant) {
    const Sequence& seq = *grant.seq;
    return seq.budget.bounds() && seq.n_computed < seq.n_prompt &&
           seq.n_computed + grant.n_tokens > seq.budget.first_voting();
  };
  const auto n = std::ranges::count_if(plan.grants, votes);
  if (n == 0) return {};
  auto* out =
      reinterpret_cast<VotingRows*>(arena.alloc(DType::u8, {n * static_cast<int64_t>(sizeof(VotingRows))}).data);
  auto* next = out;
  int64_t number = 0, row = 0;
  for (const Grant& grant : plan.grants) {
    if (votes(grant)) {
      QR_CHECK(grant.n_drafted == 0, "a guess would vote");
      const int64_t n_before = std::max(grant.seq->budget.first_voting() - grant.seq->n_computed, 0);
      std::construct_at(next++, VotingRows{number, row + n_before, row + grant.n_tokens, grant.seq->budget.votes()});
    }
    ++number;
    row += grant.n_tokens;
  }
  return {out, static_cast<size_t>(n)};
}

// Runs of rows that have the same adapter, among the arena's tables: the host reads them while a device works. REQUIRES
// room there.
std::span<const AdapterRows> put_adapters(const Plan& plan, Arena& arena) {
  if (std::ranges::all_of(plan.grants, [](const Grant& grant) { return grant.adapter() == nullptr; })) return {};
  const auto n_most =
      static_cast<int64_t>((plan.grants.size() + static_cast<size_t>(plan.n_branches)) * sizeof(AdapterRows));
  auto* out = reinterpret_cast<AdapterRows*>(arena.alloc(DType::i32, {n_most / 4}).data);
  size_t n = 0;
  const auto put = [&](const Adapter* adapter, int64_t begin, int64_t end) {
    const bool goes_on = n > 0 && out[n - 1].end == begin && out[n - 1].adapter == adapter;
    if (goes_on) {
      out[n - 1].end = end;
    } else if (adapter != nullptr) {
      std::construct_at(out + n++, AdapterRows{adapter, begin, end});
    }
  };
  int64_t row = 0;
  for (const Grant& grant : plan.grants) {
    row += grant.n_tokens;
    put(grant.adapter(), row - grant.n_adapted(), row);
  }
  // A guess lies behind the due token, to which an adapter that is at work adds already.
  for_each_branch(plan, [&](const Grant& grant, const Branch& branch) {
    put(grant.adapter(), branch.first_row, branch.first_row + std::ssize(branch.tokens));
  });
  return {out, n};
}

bool is_of_step_before(const Grant& grant) { return grant.ids_from >= 0; }

}  // namespace

Tensor put_pick_numbers(const Plan& plan, Arena& arena) {
  const Tensor out = arena.alloc(DType::i32, {plan.n_out, kPickNumbers});
  int64_t row = 0;
  for (const Grant& grant : plan.grants) {
    const int64_t position = grant.seq->n_computed + grant.n_tokens;
    put_pick(sample_params(grant.seq->request.sampling, position, nullptr), out.row<int32_t>(row++));
  }
  return out;
}

Tensor put_ids_from(const Plan& plan, Arena& arena) {
  if (std::ranges::none_of(plan.grants, is_of_step_before)) return {};
  Tensor out = arena.alloc(DType::i32, {plan.n_tokens});
  auto* at = out.ptr<int32_t>();
  for (const Grant& grant : plan.grants) {
    for (int i = 0; i < grant.n_tokens; ++i) *at++ = grant.ids_from;
  }
  return out;
}

int64_t batch_bytes(const BatchSize& most) {
  const int64_t n_blocks = most.n_ctx / most.block_tokens + 1 + kBlocksTogether;
  const int64_t n_seqs = most.n_seqs + most.n_branches;
  const auto runs = n_seqs * static_cast<int64_t>(sizeof(AdapterRows) + sizeof(VotingRows));
  const BatchRows::Size size{
      .n_rows = most.n_tokens, .n_seqs = n_seqs, .n_blocks = n_blocks, .n_again = most.n_branches * most.block_tokens};
  const int64_t ids_and_picks = (2 + kPickNumbers) * (most.n_tokens * int64_t{sizeof(int32_t)} + Arena::kAlign);
  return BatchRows::bytes(size, most.n_groups) + runs + ids_and_picks + 2 * Arena::kAlign;
}

Batch build_batch(const Plan& plan, const KvLayout& layout, int block_tokens, Arena& arena) {
  const auto n_groups = static_cast<size_t>(layout.n_groups());
  const std::span<const AdapterRows> adapters = put_adapters(plan, arena);  // while there is room among the tables
  BatchRows rows({plan.n_tokens, plan.n_out, std::ssize(plan.grants) + plan.n_branches, max_blocks(plan),
                  n_again(plan, block_tokens)},
                 layout, block_tokens, arena);
  for (const Grant& grant : plan.grants) {
    for (size_t g = 0; g < n_groups; ++g) {
      if (rows.has_table(g)) put_block_ids(grant.seq->kv, g, rows.table(g));
    }
    rows.add(rows_of(grant));
  }
  add_branches(plan, layout, block_tokens, rows);
  Batch batch = rows.batch();
  for (size_t g = 0; g < n_groups; ++g) {
    if (!rows.has_table(g)) put_states(plan, block_tokens, g, batch);
  }
  batch.voting = put_voting(plan, arena);
  batch.adapters = adapters;
  return batch;
}

}  // namespace quire
