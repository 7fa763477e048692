#include "route/prefix_map.h"

#include <algorithm>

namespace quire {

// The last step alone may have a part of its node.
std::vector<PrefixMap::Step> PrefixMap::path(std::span<const uint64_t> names) const {
  std::vector<Step> out;
  while (!names.empty()) {
    const auto at = by_first_.find(names.front());
    if (at == by_first_.end()) break;
    const auto& own = at->second->names;
    const auto differs = std::ranges::mismatch(own, names);
    const auto n = static_cast<size_t>(differs.in1 - own.begin());
    out.push_back({at->second, n});
    if (n < own.size()) break;
    names = names.subspan(n);
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

// From its name `n` on it is a node of its own, as old.
void PrefixMap::cut(Nodes::iterator node, size_t n) {
  const auto from = node->names.begin() + static_cast<std::ptrdiff_t>(n);
  Node rest{{from, node->names.end()}, node->holders};
  node->names = std::vector<uint64_t>(node->names.begin(), from);  // with no more memory than that
  const auto [at, fresh] = by_first_.try_emplace(rest.names.front());
  if (fresh)
    at->second = by_use_.insert(std::next(node), std::move(rest));
  else  // names that are no chain: whoever made them is not found by them
    n_blocks_ -= std::ssize(rest.names);
}

// From the last to the first, so that of one prompt the first block is the latest.
void PrefixMap::add(std::span<const uint64_t> names, uint64_t holder) {
  living_.insert(holder);
  std::vector<Step> steps = path(names);
  size_t known = 0;
  for (const Step& step : steps) known += step.n;
  if (!steps.empty() && steps.back().n < steps.back().node->names.size()) cut(steps.back().node, steps.back().n);
  if (known < names.size()) {
    const auto rest = names.subspan(known);
    by_use_.push_front({{rest.begin(), rest.end()}, {}});
    by_first_[rest.front()] = by_use_.begin();
    n_blocks_ += std::ssize(rest);
    steps.push_back({by_use_.begin(), rest.size()});
  }
  for (size_t i = steps.size(); i-- > 0;) {
    by_use_.splice(by_use_.begin(), by_use_, steps[i].node);
    auto& holders = steps[i].node->holders;
    auto old = std::ranges::find(holders, holder);
    if (old == holders.end()) old = std::ranges::find_if(holders, [&](uint64_t h) { return !living_.contains(h); });
    if (old == holders.end()) --old;
    std::rotate(holders.begin(), old, old + 1);
    holders.front() = holder;
  }
  drop_oldest();
}

void PrefixMap::drop_oldest() {
  const int64_t most_nodes = std::max(kFewNodes, most_blocks_ / kBlocksOfNode);
  while (n_blocks_ > most_blocks_ || n_nodes() > most_nodes) {
    Node& oldest = by_use_.back();
    const int64_t n = n_nodes() > most_nodes ? std::ssize(oldest.names) : n_blocks_ - most_blocks_;
    if (n < std::ssize(oldest.names)) {
      oldest.names.resize(oldest.names.size() - static_cast<size_t>(n));
      if (oldest.names.capacity() > 2 * oldest.names.size()) oldest.names.shrink_to_fit();
      n_blocks_ -= n;
    } else {
      n_blocks_ -= std::ssize(oldest.names);
      by_first_.erase(oldest.names.front());
      by_use_.pop_back();
    }
  }
}

void PrefixMap::set_most_blocks(int64_t most_blocks) {
  most_blocks_ = most_blocks;
  drop_oldest();
}

}  // namespace quire
