// A sequence's past and the cache: what of it is found there, taken over, made findable, given back. Keeps n_computed
// and the charges in step with the blocks. One scheduler's; engine thread only.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "engine/accounts.h"
#include "engine/virtual_tokens.h"
#include "kv/kv_cache.h"

namespace quire {

class Pasts {
 public:
  // `key`: what every sequence's prefix key has in common. `cache` and `accounts` outlive it.
  Pasts(KvCache& cache, const CacheKey& key, Accounts& accounts) : cache_(cache), key_(key), accounts_(accounts) {}

  // Virtual tokens that requests may ask for, with blocks that are theirs for good.
  struct Learned {
    uint64_t content;
    int n_tokens;
    SeqKv kv;
  };
  // `compute` is called with plans of at most most_rows rows, for all of `tokens` in order. REQUIRES room.
  void learn(const VirtualTokens& tokens, int most_rows, const std::function<void(const Plan&)>& compute);
  std::span<const Learned> learned() const { return learned_; }

  Prefix prefix_of(const Sequence& seq) const;
  // What of it may be looked for: up to Sequence::n_findable, and one token more, which a match leaves to compute.
  Prefix findable_of(const Sequence& seq) const;
  // Puts what is known of its past into its table, which is empty: whole blocks, of its virtual tokens in any case.
  // Nobody is charged yet; n_computed says how much, and is returned.
  int begin(Sequence& seq);
  // Behind begin, before its first row: the rest of its virtual tokens, which is no whole block. False, with nothing
  // changed, when there is no room.
  bool finish_virtual(Sequence& seq);
  // Behind begin, before its first row: the first tokens of a block of the tree that its past goes on with, as a copy.
  // Nobody is charged; returns how many, which n_computed counts then. At most once until give_back.
  int begin_block(Sequence& seq);
  // Its first n_known tokens are in its table now, though it did not compute them. Virtual ones are not counted.
  void take(Sequence& seq, int n_known);
  // Takes what has become known behind what it has. REQUIRES as KvCache::extend.
  void extend(Sequence& seq) { take(seq, cache_.extend(seq.kv, findable_of(seq))); }
  // Drops what its budget leaves no room for, where it must now. False, with nothing changed, when there is no room for
  // what that copies.
  bool drop(Sequence& seq);
  // Makes the whole blocks of what it has computed findable.
  void index(Sequence& seq);
  // It holds nothing any more.
  void give_back(Sequence& seq);

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }

 private:
  const Learned* learned(const Sequence& seq) const;  // null: it has no virtual tokens

  KvCache& cache_;
  const CacheKey key_;
  Accounts& accounts_;
  std::vector<Learned> learned_;  // few
};

}  // namespace quire
