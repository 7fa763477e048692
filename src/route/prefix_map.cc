#include "route/prefix_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire {

// The last step alone may have a part of its node. Names that are no chain, whoever made them, end it.
std::vector<PrefixMap::Step> PrefixMap::path(std::span<const uint64_t> names) const {
  std::vector<Step> out;
  const Node* up = nullptr;
  while (!names.empty()) {
    const auto at = by_first_.find(names.front());
    if (at == by_first_.end() || at->second->up != up) break;
    const auto& own = at->second->names;
    const auto differs = std::ranges::mismatch(own, names);
    const auto n = static_cast<size_t>(differs.in1 - own.begin());
    out.push_back({at->second, n});
    if (n < own.size()) break;
    names = names.subspan(n);
    up = &*at->second;
  }
  return out;
}

std::vector<PrefixMap::Hit> PrefixMap::find(std::span<const uint64_t> names) const {
  const std::vector<Step> steps = path(names);
  int64_t n_blocks = 0;
  for (const Step& step : steps) n_blocks += static_cast<int64_t>(step.n);
  std::vector<Hit> hits;
  for (size_t i = steps.size(); i-- > 0; n_blocks -= static_cast<int64_t>(steps[i].n)) {
    for (const uint64_t holder : steps[i].node->holders) {
      if (holder == 0) break;
      const bool is_new = std::ranges::find(hits, holder, &Hit::holder) == hits.end();
      if (is_new && living_.contains(holder)) hits.push_back({holder, n_blocks});
      if (hits.size() == kMostHits) return hits;
    }
  }
  return hits;
}

PrefixMap::Holders PrefixMap::living(const Node& node) const {
  Holders out{};
  size_t n = 0;
  for (const uint64_t holder : node.holders)
    if (holder != 0 && living_.contains(holder)) out[n++] = holder;
  return out;
}

// Its first `n` names become a node of their own, as old. What goes on from it still does.
PrefixMap::Nodes::iterator PrefixMap::cut(Nodes::iterator node, size_t n) {
  const auto from = node->names.begin() + static_cast<std::ptrdiff_t>(n);
  const auto upper = by_use_.insert(node, Node{{node->names.begin(), from}, node->holders, node->up, 1});
  node->names = std::vector<uint64_t>(from, node->names.end());  // with no more memory than that
  node->up = &*upper;
  by_first_[upper->names.front()] = upper;
  by_first_[node->names.front()] = node;  // in place of another where names are no chain: that one is found no more
  return upper;
}

// The hand goes on without it.
void PrefixMap::leave(Nodes::iterator node) {
  if (hand_ != node) return;
  if (node == by_use_.begin())
    hand_.reset();
  else
    --*hand_;
}

void PrefixMap::touch(Nodes::iterator node, uint64_t holder) {
  leave(node);
  by_use_.splice(by_use_.begin(), by_use_, node);
  Holders& holders = node->holders = living(*node);
  auto old = std::ranges::find(holders, holder);
  if (old == holders.end()) old = std::ranges::find(holders, 0U);
  if (old == holders.end()) --old;
  std::rotate(holders.begin(), old, old + 1);
  holders.front() = holder;
}

// `lower` becomes both. REQUIRES it goes on from `upper`, and both were just touched.
bool PrefixMap::merge(Nodes::iterator upper, Nodes::iterator lower) {
  if (upper->n_down != 1 || upper->holders != lower->holders) return false;
  std::vector<uint64_t> names;
  names.reserve(upper->names.size() + lower->names.size());
  names.insert(names.end(), upper->names.begin(), upper->names.end());
  names.insert(names.end(), lower->names.begin(), lower->names.end());
  by_first_.erase(lower->names.front());
  by_first_[names.front()] = lower;
  lower->names = std::move(names);
  lower->up = upper->up;
  leave(upper);
  by_use_.erase(upper);
  return true;
}

// From the last to the first, so that of one prompt the first block is the latest.
void PrefixMap::add(std::span<const uint64_t> names, uint64_t holder) {
  const int64_t had_blocks = n_blocks_, had_nodes = n_nodes();
  living_.insert(holder);
  std::vector<Step> steps = path(names);
  size_t known = 0;
  for (const Step& step : steps) known += step.n;
  if (!steps.empty() && steps.back().n < steps.back().node->names.size())
    steps.back().node = cut(steps.back().node, steps.back().n);
  if (known < names.size()) {
    const auto rest = names.subspan(known);
    Node* up = steps.empty() ? nullptr : &*steps.back().node;
    by_use_.push_front({{rest.begin(), rest.end()}, {}, up});
    by_first_[rest.front()] = by_use_.begin();
    n_blocks_ += std::ssize(rest);
    if (up != nullptr) ++up->n_down;
    steps.push_back({by_use_.begin(), rest.size()});
  }
  for (size_t i = steps.size(); i-- > 0;) {
    touch(steps[i].node, holder);
    if (i + 1 < steps.size() && merge(steps[i].node, steps[i + 1].node)) steps[i] = steps[i + 1];
  }
  sweep();
  drop_oldest(had_blocks, had_nodes);
}

// REQUIRES nothing goes on from it.
void PrefixMap::drop(Nodes::iterator node) {
  n_blocks_ -= std::ssize(node->names);
  if (node->up != nullptr) --node->up->n_down;
  const auto at = by_first_.find(node->names.front());
  if (at != by_first_.end() && at->second == node) by_first_.erase(at);
  leave(node);
  by_use_.erase(node);
}

// What goes on from a node is older than it. What came in just now beyond the bound goes at once; what there was beyond
// it before, because the bound has fallen, by and by, and only when no more is left that nobody living holds.
void PrefixMap::drop_oldest(int64_t had_blocks, int64_t had_nodes) {
  const int64_t bound_nodes = std::max(kFewNodes, most_blocks_ / kBlocksOfNode);
  const bool sweeps = hand_ || forgot_;
  for (int i = 0;; ++i) {
    const bool grows_only = sweeps || i >= kDroppedAtOnce;
    const int64_t most_blocks = grows_only ? std::max(most_blocks_, had_blocks) : most_blocks_;
    const int64_t most_nodes = grows_only ? std::max(bound_nodes, had_nodes) : bound_nodes;
    if (n_blocks_ <= most_blocks && n_nodes() <= most_nodes) return;
    Node& oldest = by_use_.back();
    const int64_t n = n_nodes() > most_nodes ? std::ssize(oldest.names) : n_blocks_ - most_blocks;
    if (n < std::ssize(oldest.names)) {
      oldest.names.resize(oldest.names.size() - static_cast<size_t>(n));
      if (oldest.names.capacity() > 2 * oldest.names.size()) oldest.names.shrink_to_fit();
      n_blocks_ -= n;
    } else {
      drop(std::prev(by_use_.end()));
    }
  }
}

bool PrefixMap::sweep() {
  if (!hand_ && std::exchange(forgot_, false) && !by_use_.empty()) hand_ = std::prev(by_use_.end());
  for (int i = 0; i < kSweptAtOnce && hand_; ++i) {
    const auto node = *hand_;
    leave(node);
    if (node->n_down == 0 && living(*node) == Holders{}) drop(node);
  }
  return hand_ || forgot_;
}

}  // namespace quire
