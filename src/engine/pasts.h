// A sequence's past and the cache: what of it is found there, taken over, made findable, given back. Keeps n_computed
// and the charges in step with the blocks. One scheduler's; engine thread only.
#pragma once
#include "engine/accounts.h"
#include "kv/kv_cache.h"

namespace quire {

class Pasts {
 public:
  // `key`: what every sequence's prefix key has in common. `cache` and `accounts` outlive it.
  Pasts(KvCache& cache, const CacheKey& key, Accounts& accounts) : cache_(cache), key_(key), accounts_(accounts) {}

  Prefix prefix_of(const Sequence& seq) const;
  // Its first n_known tokens are in its table now, though it did not compute them.
  void take(Sequence& seq, int n_known);
  // Takes what has become known behind what it has. REQUIRES as KvCache::extend.
  void extend(Sequence& seq) { take(seq, cache_.extend(seq.kv, prefix_of(seq))); }
  // Makes the whole blocks of what it has computed findable.
  void index(Sequence& seq);
  // It holds nothing any more.
  void give_back(Sequence& seq);

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }

 private:
  KvCache& cache_;
  const CacheKey key_;
  Accounts& accounts_;
};

}  // namespace quire
