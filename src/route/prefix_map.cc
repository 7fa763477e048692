#include "route/prefix_map.h"

#include <algorithm>

namespace quire {

std::vector<PrefixMap::Hit> PrefixMap::find(std::span<const uint64_t> names) const {
  std::vector<Hit> hits;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = by_name_.find(names[i]);
    if (found == by_name_.end()) break;
    bool some = false;
    for (const uint64_t holder : found->second->holders) {
      if (holder == 0) break;
      if (i == 0) hits.push_back({holder, 0});
      const auto hit = std::find_if(hits.begin(), hits.end(), [&](const Hit& h) { return h.holder == holder; });
      if (hit == hits.end() || hit->n_blocks != static_cast<int64_t>(i)) continue;
      hit->n_blocks = static_cast<int64_t>(i) + 1;
      some = true;
    }
    if (!some) break;
  }
  return hits;
}

// From the last to the first, so that of one prompt the first block is the latest.
void PrefixMap::add(std::span<const uint64_t> names, uint64_t holder) {
  for (size_t i = names.size(); i-- > 0;) {
    const auto [at, fresh] = by_name_.try_emplace(names[i]);
    if (fresh) {
      by_use_.push_front({names[i], {}});
      at->second = by_use_.begin();
    } else {
      by_use_.splice(by_use_.begin(), by_use_, at->second);
    }
    auto& holders = at->second->holders;
    const auto old = std::find(holders.begin(), holders.end(), holder);
    std::rotate(holders.begin(), old == holders.end() ? old - 1 : old, old == holders.end() ? old : old + 1);
    holders.front() = holder;
  }
  while (n_blocks() > most_blocks_) {
    by_name_.erase(by_use_.back().name);
    by_use_.pop_back();
  }
}

void PrefixMap::forget(uint64_t holder) {
  for (Block& block : by_use_) {
    const auto at = std::find(block.holders.begin(), block.holders.end(), holder);
    if (at == block.holders.end()) continue;
    std::rotate(at, at + 1, block.holders.end());
    block.holders.back() = 0;
  }
}

}  // namespace quire
