// The prefix tree where a path ends within a block.
#include <algorithm>

#include "kv/closest_child.h"
#include "kv/prefix_tree.h"

namespace quire {
namespace {

constexpr int kSiblings = 64;

}  // namespace

int32_t PrefixTree::find_part(const Prefix& prefix, int max_tokens, const Walk& end, int& n_tokens) const {
  n_tokens = 0;
  if (!cut(prefix).extras(end.depth).empty()) return kNone;
  std::span<const Token> tokens =
      prefix.tokens.subspan(static_cast<size_t>(end.depth) * static_cast<size_t>(block_tokens_));
  tokens = tokens.first(std::min(tokens.size(), static_cast<size_t>(std::clamp(max_tokens, 0, block_tokens_ - 1))));
  const WantedChild wanted{tokens, cut(prefix).key(end.depth), prefix.whose, kSiblings};
  return closest_child(nodes_, end.node, wanted, n_tokens, [this](int32_t id, int n) {
    const Node& node = nodes_[id];
    const bool is_enough = n >= std::max(block_tokens_ / 4, 1);  // a token or two in common is chance
    return is_enough && node.state == NodeState::resident && node.extras.empty() &&
           std::ranges::all_of(node.blocks, [](const BlockRef& block) { return static_cast<bool>(block); });
  });
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
