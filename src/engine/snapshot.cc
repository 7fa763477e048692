#include "engine/snapshot.h"

namespace quire {

std::string Snapshot::check() const {
  const int in_use = n_held_blocks + stats.n_cached_blocks;
  if (stats.n_free_blocks + in_use != stats.n_blocks) {
    return "blocks: free " + std::to_string(stats.n_free_blocks) + " + held " + std::to_string(n_held_blocks) +
           " + cached " + std::to_string(stats.n_cached_blocks) + " != " + std::to_string(stats.n_blocks);
  }
  if (n_refs != n_expected_refs) {
    return "references: the pool counts " + std::to_string(n_refs) + ", the holders " + std::to_string(n_expected_refs);
  }
  return tree_error;
}

}  // namespace quire
