// The prefix tree as a reader asks why a path ends: nothing of it is taken, touched or changed.
#include <algorithm>

#include "kv/closest_child.h"
#include "kv/prefix_tree.h"

namespace quire {

// Of the stored blocks that could have stood where the path ends, the tenant's own that has most in common with what
// stands there; of equal ones the last used. kNone: there is none.
int32_t PrefixTree::nearest_sibling(const Prefix& prefix,
                                    const Walk& end,
                                    const TraceLimits& limits,
                                    int& n_common) const {
  const WantedChild wanted{cut(prefix).tokens(end.depth), cut(prefix).key(end.depth), prefix.whose, limits.n_siblings};
  // One that is equal as a whole parts from it in what is no token.
  return closest_child(nodes_, end.node, wanted, n_common, [this](int32_t, int n) { return n < block_tokens_; });
}

PathTrace PrefixTree::trace(const Prefix& prefix, int max_blocks, const TraceLimits& limits) const {
  PathTrace out;
  const Walk matched = walk_matched(prefix, max_blocks);
  out.n_matched = matched.depth * block_tokens_;
  find_part(prefix, static_cast<int>(prefix.tokens.size()) - 1 - out.n_matched, matched, out.n_part);
  Walk end, next;
  next.hash = hasher_.root(cut(prefix).key(0));
  while (next.depth < max_blocks && step(prefix, next, true)) {
    if (next.depth * block_tokens_ > out.n_matched && nodes_[next.node].whose != prefix.whose) break;
    end = next;
  }
  out.n_known = end.depth * block_tokens_;
  if (end.depth == max_blocks) return out;
  int32_t id = nearest_sibling(prefix, end, limits, out.n_common);
  // What shares a control token or two with all that is stored is like none of it.
  const int least = end.depth > 0 ? 0 : std::max(block_tokens_ / 4, 1);
  if (id == kNone || out.n_common < least) {
    out.n_common = 0;
    return out;
  }
  // Down the tenant's own path, the newest branch of it.
  const CacheKey key = nodes_[id].key;
  size_t at = static_cast<size_t>(out.n_common);
  const auto most = static_cast<size_t>(limits.n_stored);
  while (id != kNone && out.stored.size() < most) {
    const std::span<const Token> tokens = nodes_.tokens(id).subspan(at);
    const size_t n = std::min(tokens.size(), most - out.stored.size());
    out.stored.insert(out.stored.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    at = 0;
    int32_t child = nodes_.first_child(id);
    int n_seen = 0;
    while (child != kNone && (nodes_[child].whose != prefix.whose || nodes_[child].key != key)) {
      child = ++n_seen < limits.n_siblings ? nodes_[child].after : kNone;
    }
    id = child;
  }
  return out;
}

}  // namespace quire
