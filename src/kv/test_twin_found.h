// What test_twin.h expects to be found: whole blocks, and the part of one that is the same, which is copied.
#pragma once
#include "kv/test_twin.h"

namespace quire {

inline int Twin::expected_hit(const Seq& seq) const {
  const int most = (static_cast<int>(seq.tokens.size()) - 1) / knobs_.block_tokens;
  int best = 0;
  size_t first_whole = 0;
  for (int b = 1; b <= most; ++b) {
    const std::string path = seq.path(b, knobs_.block_tokens);
    if (!known_.contains(path)) break;
    if (knobs_.window > 0 && !kept_.contains(path)) {
      first_whole = static_cast<size_t>(b);
      if (first_whole <= n_kept_blocks()) break;  // no row does without it
    }
    if (knobs_.window == 0 || first_whole <= first_block(b * knobs_.block_tokens)) best = b;
  }
  return best;
}

inline std::pair<std::string, int> Twin::expected_part(const Seq& seq) const {
  const auto n_had = static_cast<size_t>(seq.n_computed);
  const std::string above = seq.path(static_cast<int>(seq.paths.size()), knobs_.block_tokens);
  const size_t most = std::min(seq.tokens.size() - n_had - 1, static_cast<size_t>(knobs_.block_tokens) - 1);
  const auto least = static_cast<size_t>(std::max(knobs_.block_tokens / 4, 1));
  const Prefix prefix = seq.prefix();
  if (!PrefixBlocks{prefix, knobs_.block_tokens}.extras(static_cast<int>(seq.paths.size())).empty()) return {"", 0};
  std::string best;
  size_t n_best = 0;
  for (const auto& [path, used] : known_) {
    if (path.size() != above.size() + static_cast<size_t>(knobs_.block_tokens) + 1 || !path.starts_with(above))
      continue;
    if (path.find('(', above.size()) != std::string::npos || (knobs_.window > 0 && !kept_.contains(path))) continue;
    size_t n = 0;
    while (n < most && path[above.size() + n] == 'a' + seq.tokens[n_had + n]) ++n;
    if (n < std::max(n_best, least) || (n == n_best && used < known_.at(best))) continue;
    best = path;
    n_best = n;
  }
  return {best, static_cast<int>(n_best)};
}

inline void Twin::copy_part(Seq& seq) {
  const int n_had = seq.n_computed;
  const auto [path, n_expected] = expected_part(seq);
  const int n_free = cache_->n_free_blocks();
  const int n = cache_->copy_part(seq.kv, seq.prefix());
  ASSERT_TRUE(n >= 0 && n < knobs_.block_tokens && n_had + n < static_cast<int>(seq.tokens.size()));
  if (exact()) {
    // The block itself makes no room, and is used.
    const bool idle = n_expected > 0 && n_holders(path) == 0;
    const bool window_idle = std::erase(idle_, path) > 0;
    const auto n_others = std::ranges::count_if(known_, [&](const auto& one) { return n_holders(one.first) == 0; });
    bool possible = n_expected > 0 && n_free + n_others - (idle ? 1 : 0) > 0;
    if (knobs_.window > 0) possible &= n_window_free() + std::ssize(idle_) > 0;
    ASSERT_EQ(n, possible ? n_expected : 0);
    if (n_expected > 0) {
      known_[path] = ++clock_;
      touch(seq, static_cast<int>(seq.paths.size()));
    }
    if (possible) evict_in_model(1 - n_free);
    if (possible) evict_window_in_model(1);
    if (window_idle) idle_.push_back(path);
  }
  if (n == 0) return;
  seq.paths.resize(seq.kv.table.size());
  seq.n_computed = n_had + n;
  seq.fresh = false;
  ++n_parts;
  ASSERT_TRUE(cache_->exclusive(seq.kv, n_had, n_had + n)) << "a copy is its owner's alone";
}

}  // namespace quire
