// The prefix tree where a path ends within a block.
#include <algorithm>

#include "kv/prefix_tree.h"

namespace quire {
namespace {

constexpr int kSiblings = 64;

}  // namespace

int32_t PrefixTree::find_part(const Prefix& prefix, int max_tokens, const Walk& end, int& n_tokens) const {
  n_tokens = 0;
  if (!cut(prefix).extras(end.depth).empty()) return kNone;
  const CacheKey key = cut(prefix).key(end.depth);
  std::span<const Token> wanted = prefix.tokens.subspan(static_cast<size_t>(end.depth * block_tokens_));
  wanted = wanted.first(std::min(wanted.size(), static_cast<size_t>(std::clamp(max_tokens, 0, block_tokens_ - 1))));
  // A token or two in common is chance.
  const int least = std::max(block_tokens_ / 4, 1);
  int32_t best = kNone;
  int32_t id = nodes_.first_child(end.node);
  for (int n_seen = 0; id != kNone && n_seen < kSiblings; ++n_seen, id = nodes_[id].after) {
    const Node& node = nodes_[id];
    if (node.state != NodeState::resident || node.whose != prefix.whose || node.key != key || !node.extras.empty())
      continue;
    const auto n = static_cast<int>(std::ranges::mismatch(wanted, nodes_.tokens(id)).in1 - wanted.begin());
    if (n < std::max(n_tokens, least) || (n == n_tokens && node.last_used < nodes_[best].last_used)) continue;
    if (!std::ranges::all_of(node.blocks, [](const BlockRef& b) { return static_cast<bool>(b); })) continue;
    best = id;
    n_tokens = n;
  }
  return best;
}

PrefixTree::Part PrefixTree::part(const Prefix& prefix, int max_tokens, const std::vector<Blocks>& table) {
  Walk end;
  if (!resume(prefix, table, static_cast<int>(table.size()), end)) return {};
  Part out;
  const int32_t node = find_part(prefix, max_tokens, end, out.n_tokens);
  if (node == kNone) return {};
  touch(node);
  out.blocks = nodes_[node].blocks.share();
  return out;
}

}  // namespace quire
