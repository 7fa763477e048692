// Blocks that tests offer to a tier and read back: a pool of one block, offered under as many names as a test wants,
// each with bytes of its own.
#pragma once
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/block_pool.h"
#include "kv/tiers/tier_copy.h"

namespace quire {

template <int kBytes>
struct TestBlocks {
  static constexpr int kTokens = 4;

  TestBlocks() : pool(*Buffer::allocate(kBytes), 1, kBytes) {
    block.push_back(pool.allocate());
    memory.groups[0] = {pool.base(), kBytes, kTokens};
    memory.n_groups = 1;
  }
  static Spelling spelling(uint64_t n) {
    return {{n, n + 1}, {n + 2, n}, {7, 0, n}, {1, 2, 3, static_cast<Token>(n)}, {}};
  }
  static std::vector<std::byte> bytes(uint64_t n) {
    std::vector<std::byte> out;
    out.reserve(kBytes);
    for (int i = 0; i < kBytes; ++i)
      out.push_back(static_cast<std::byte>(mix64(n * 10'000 + static_cast<uint64_t>(i))));
    return out;
  }
  bool offer_to(Tier& tier, uint64_t n) const {
    const Spelling s = spelling(n);
    std::memcpy(pool.base(), bytes(n).data(), kBytes);
    const LeavingBlock leaving{s.name, s.key, s.parent, s.tokens, s.extras, block};
    const TierWish wish = tier.wish(leaving);
    TierBlock copy;
    if (wish == TierWish::wants) begin_copy(leaving, memory, copy);
    const bool out = wish == TierWish::has || (wish == TierWish::wants && tier.take(s, std::move(copy)));
    std::memset(pool.base(), 0, kBytes);  // it has a copy
    return out;
  }
  static std::shared_ptr<TierRead> read_from(Tier& tier, std::vector<Spelling> wanted) {
    auto out = std::make_shared<TierRead>(std::move(wanted));
    tier.bring(out, 0, out->n_blocks());
    return out;
  }

  BlockPool pool;
  GroupBlocks block;
  KvView memory;
};

}  // namespace quire
