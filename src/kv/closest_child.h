// Of the blocks that are stored behind one another, the one that goes along longest with what somebody asks for. Used
// by the prefix tree alone; engine thread only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "kv/node_table.h"
#include "kv/prefix.h"

namespace quire {

struct WantedChild {
  std::span<const Token> tokens;  // what should stand in it, a block at most
  CacheKey key;
  uint64_t whose = 0;   // the tenant that must have put it there
  int n_seen_most = 0;  // the newest so many are looked at
};

// Of the children of `parent` (kNone: the roots) under that key and of that tenant which fits(id, n tokens in common)
// takes, the one with most tokens in common, of equal ones the last used, and how many. kNone and 0: there is none.
template <class Fits>
int32_t closest_child(
    const NodeTable& nodes, int32_t parent, const WantedChild& wanted, int& n_common, const Fits& fits) {
  int32_t best = NodeTable::kNone;
  n_common = 0;
  int n_seen = 0;
  for (int32_t id = nodes.first_child(parent); id != NodeTable::kNone && n_seen < wanted.n_seen_most;
       id = nodes[id].after, ++n_seen) {
    const Node& node = nodes[id];
    if (node.whose != wanted.whose || node.key != wanted.key) continue;
    const auto n = static_cast<int>(std::ranges::mismatch(wanted.tokens, nodes.tokens(id)).in1 - wanted.tokens.begin());
    const bool closer =
        best == NodeTable::kNone || n > n_common || (n == n_common && node.last_used > nodes[best].last_used);
    if (!closer || !fits(id, n)) continue;
    best = id;
    n_common = n;
  }
  return best;
}

}  // namespace quire
