#include "engine/audit.h"

namespace quire {
namespace {

// That the sequence holds of all groups of a kind.
int n_blocks_of(const Sequence& seq, const KvCache& cache, KvGroup::Kind kind) {
  int n = 0;
  for (const PrefixTree::Blocks& blocks : seq.kv.table) {
    for (size_t g = 1; g < blocks.size(); ++g) n += blocks[g] && cache.group(static_cast<int>(g)).kind == kind ? 1 : 0;
  }
  return n;
}

int& n_held(Snapshot& out, const KvCache& cache, size_t group) {
  if (group == 0) return out.n_held_blocks;
  const bool is_state = cache.group(static_cast<int>(group)).kind == KvGroup::Kind::state;
  return is_state ? out.n_held_states : out.n_held_window_blocks;
}

// Whether every block of the group has as many references as holders.
void count_holders(const Scheduler& scheduler, const KvCache& cache, size_t group, Snapshot& out) {
  const BlockPool& pool = cache.pool(static_cast<int>(group));
  std::vector<int> holders(static_cast<size_t>(pool.n_blocks()));
  const auto hold = [&](std::span<const GroupBlocks> table) {
    for (const GroupBlocks& blocks : table) {
      if (blocks[group]) ++holders[static_cast<size_t>(blocks[group].id())];
    }
  };
  for (const Pasts::Learned& learned : scheduler.learned()) hold(learned.kv.table);
  if (scheduler.pins() != nullptr) {
    for (const Pins::Pin& pin : scheduler.pins()->pins()) hold(pin.kv.table);
  }
  for (const auto seqs : {scheduler.running(), scheduler.waiting()}) {
    for (const auto& seq : seqs) {
      hold(seq->kv.table);
      if (seq->load == nullptr) continue;
      hold(seq->load->run.before());
      hold(seq->load->run.blocks());
    }
  }
  for (int32_t b = 0; b < pool.n_blocks(); ++b) {
    const int n_holders = holders[static_cast<size_t>(b)];
    const int expected = n_holders + (pool.indexed(b) ? 1 : 0);
    n_held(out, cache, group) += n_holders > 0 ? 1 : 0;
    out.n_expected_refs += expected;
    out.n_refs += pool.n_refs(b);
    if (pool.n_refs(b) != expected && out.ref_error.empty()) {
      out.ref_error = "block " + std::to_string(b) + " of group " + std::to_string(group) + " has " +
                      std::to_string(pool.n_refs(b)) + " references and " + std::to_string(expected) + " holders";
    }
  }
}

}  // namespace

Snapshot audit(const Scheduler& scheduler, const KvCache& cache) {
  Snapshot out;
  const auto see = [&](const Sequence& seq, bool running) {
    out.cost += seq.account.cost;
    out.seqs.push_back({seq.id, running, seq.n_prompt, static_cast<int>(seq.tokens.size()), seq.n_computed,
                        static_cast<int>(seq.kv.table.size()), n_blocks_of(seq, cache, KvGroup::Kind::window),
                        n_blocks_of(seq, cache, KvGroup::Kind::state)});
  };
  for (const auto& seq : scheduler.running()) see(*seq, true);
  for (const auto& seq : scheduler.waiting()) see(*seq, false);
  out.n_indexed_blocks = cache.n_indexed_blocks();
  for (int g = 0; g < cache.n_groups(); ++g) count_holders(scheduler, cache, static_cast<size_t>(g), out);
  out.tree_error = cache.check();
  return out;
}

}  // namespace quire
