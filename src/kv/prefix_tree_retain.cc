// The prefix tree towards wishes that a path stays for longer, or goes sooner (retention.h).
#include <algorithm>

#include "kv/prefix_tree.h"

namespace quire {

// The lists order by priority, so a leaf leaves them for the change.
void PrefixTree::set_priority(int32_t node, int priority) {
  const bool listed = leaves_->lists(node);
  if (listed) leaves_->drop(node);
  nodes_[node].priority = static_cast<uint8_t>(priority);
  if (listed) leaves_->push(node);
}

int PrefixTree::retain(const Prefix& prefix, std::span<const RetentionRange> ranges, int64_t now_ns) {
  int n_wished = 0;  // tokens that something is wished for
  for (const RetentionRange& range : ranges) n_wished = std::max(n_wished, range.end);
  const int n_tokens = static_cast<int>(prefix.tokens.size()) / block_tokens_ * block_tokens_;  // of whole blocks
  const int n_blocks = (std::min(n_wished, n_tokens) + block_tokens_ - 1) / block_tokens_;
  Walk walk;
  walk.hash = hasher_.root(cut(prefix).key(0));
  while (walk.depth < n_blocks && step(prefix, walk, false)) {
    const int begin = (walk.depth - 1) * block_tokens_;
    BlockWish wish = wish_of(ranges, begin, begin + block_tokens_, now_ns);
    wish.whose = prefix.whose;
    const int priority = retentions_.note(walk.node, wish);
    if (priority < 0) return n_blocks - walk.depth + 1;
    if (priority != nodes_[walk.node].priority) set_priority(walk.node, priority);
  }
  return 0;
}

void PrefixTree::tell_time(int64_t now_ns) {
  for (int32_t node = retentions_.next_over(now_ns); node != kNone; node = retentions_.next_over(now_ns)) {
    retentions_.forget(node);
    set_priority(node, kUsualPriority);
  }
}

}  // namespace quire
