#include "engine/audit.h"

namespace quire {
namespace {

int n_window_blocks(const Sequence& seq) {
  int n = 0;
  for (const PrefixTree::Blocks& blocks : seq.kv.table) {
    for (size_t g = 1; g < blocks.size(); ++g) n += blocks[g] ? 1 : 0;
  }
  return n;
}

// Whether every block of the group has as many references as holders.
void count_holders(const Scheduler& scheduler, const BlockPool& pool, size_t group, Snapshot& out) {
  std::vector<int> holders(static_cast<size_t>(pool.n_blocks()));
  const auto hold = [&](std::span<const GroupBlocks> table) {
    for (const GroupBlocks& blocks : table) {
      if (blocks[group]) ++holders[static_cast<size_t>(blocks[group].id())];
    }
  };
  for (const Pasts::Learned& learned : scheduler.learned()) hold(learned.kv.table);
  for (const auto seqs : {scheduler.running(), scheduler.waiting()}) {
    for (const auto& seq : seqs) {
      hold(seq->kv.table);
      if (seq->load == nullptr) continue;
      hold(seq->load->run.before());
      hold(seq->load->run.blocks());
    }
  }
  for (int32_t b = 0; b < pool.n_blocks(); ++b) {
    const int n_held = holders[static_cast<size_t>(b)];
    const int expected = n_held + (pool.indexed(b) ? 1 : 0);
    (group == 0 ? out.n_held_blocks : out.n_held_window_blocks) += n_held > 0 ? 1 : 0;
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
                        static_cast<int>(seq.kv.table.size()), n_window_blocks(seq)});
  };
  for (const auto& seq : scheduler.running()) see(*seq, true);
  for (const auto& seq : scheduler.waiting()) see(*seq, false);
  out.n_indexed_blocks = cache.n_indexed_blocks();
  for (int g = 0; g < cache.n_groups(); ++g) count_holders(scheduler, cache.pool(g), static_cast<size_t>(g), out);
  out.tree_error = cache.check();
  return out;
}

}  // namespace quire
