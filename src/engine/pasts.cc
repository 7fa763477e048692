#include "engine/pasts.h"

namespace quire {

Prefix Pasts::prefix_of(const Sequence& seq) const {
  CacheKey key = key_;
  key.salt = seq.request.cache_salt;
  return {seq.tokens, key, {}, seq.request.n_public};
}

void Pasts::take(Sequence& seq, int n_known) {
  accounts_.reused(seq, n_known - seq.n_computed);
  seq.n_computed = n_known;
}

void Pasts::index(Sequence& seq) {
  const int n_before = seq.kv.n_indexed;
  int n_known = cache_.index(seq.kv, prefix_of(seq), seq.n_computed);
  if (n_known > 0)
    n_known -= seq.follows.n_copied;  // not computed by it; the first that was not indexed is the one copied
  if (seq.kv.n_indexed > n_before) seq.follows.n_copied = 0;
  accounts_.wasted(seq, n_known);
}

void Pasts::give_back(Sequence& seq) {
  cache_.release(seq.kv);
  seq.n_computed = 0;
  seq.follows.n_copied = 0;
}

}  // namespace quire
