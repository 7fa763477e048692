#include "engine/snapshot.h"

namespace quire {

std::string Snapshot::check() const {
  const auto adds_up = [](const char* what, int n_free, int n_held, int n_cached, int n_all) -> std::string {
    if (n_free + n_held + n_cached == n_all) return "";
    return std::string(what) + ": free " + std::to_string(n_free) + " + held " + std::to_string(n_held) + " + cached " +
           std::to_string(n_cached) + " != " + std::to_string(n_all);
  };
  std::string error = adds_up("blocks", stats.n_free_blocks, n_held_blocks, stats.n_cached_blocks, stats.n_blocks);
  if (!error.empty()) return error;
  error = adds_up("window blocks", stats.n_free_window_blocks, n_held_window_blocks, stats.n_cached_window_blocks,
                  stats.n_window_blocks);
  if (!error.empty()) return error;
  error = adds_up("states", stats.n_free_states, n_held_states, stats.n_cached_states, stats.n_states);
  if (!error.empty()) return error;
  if (n_refs != n_expected_refs) {
    return "references: the pool counts " + std::to_string(n_refs) + ", the holders " + std::to_string(n_expected_refs);
  }
  const auto differs = [](const char* what, int64_t charged, int64_t spent) {
    return std::string(what) + ": charged " + std::to_string(charged) + ", spent " + std::to_string(spent);
  };
  const Cost& spent = stats.spent;
  if (cost.n_computed() != stats.n_rows) return differs("rows", cost.n_computed(), stats.n_rows);
  if (cost.computed != spent.computed) return "rows by cause: charged otherwise than spent";
  if (cost.n_reused != spent.n_reused) return differs("reused", cost.n_reused, spent.n_reused);
  if (cost.n_wasted != spent.n_wasted) return differs("wasted", cost.n_wasted, spent.n_wasted);
  if (cost.block_ns != spent.block_ns) return differs("block time", cost.block_ns, spent.block_ns);
  const int64_t time_ns = cost.prefill_ns + cost.decode_ns;
  if (time_ns != stats.busy_ns) return differs("time", time_ns, stats.busy_ns);
  if (cost.stage_ns != spent.stage_ns) return "parts of steps: charged otherwise than spent";
  return ref_error.empty() ? tree_error : ref_error;
}

}  // namespace quire
