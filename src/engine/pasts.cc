#include "engine/pasts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {

Prefix Pasts::prefix_of(const Sequence& seq) const {
  CacheKey key = key_;
  key.adapter = seq.request.learned();
  key.salt = seq.request.cache_salt;
  return {seq.tokens, key, {}, seq.n_virtual + seq.request.n_public, seq.request.tenant, seq.n_base};
}

Prefix Pasts::findable_of(const Sequence& seq) const {
  Prefix out = prefix_of(seq);
  out.tokens = out.tokens.first(static_cast<size_t>(seq.n_findable()) + 1);
  return out;
}

void Pasts::learn(const VirtualTokens& tokens, int most_rows, const std::function<void(const Plan&)>& compute) {
  Sequence seq;
  seq.request.prefix = tokens.content;
  seq.tokens.resize(static_cast<size_t>(tokens.n));
  seq.n_virtual = seq.n_prompt = tokens.n;
  QR_CHECK(cache_.grow(seq.kv, tokens.n), "the engine takes room for what it learns");
  while (seq.n_pending() > 0) {
    Plan plan;
    plan.add({&seq, std::min(seq.n_pending(), most_rows)});
    compute(plan);
    seq.n_computed += plan.n_tokens;
  }
  cache_.index(seq.kv, prefix_of(seq), tokens.n);
  learned_.push_back({tokens.content, tokens.n, std::move(seq.kv)});
}

const Pasts::Learned* Pasts::learned(const Sequence& seq) const {
  if (seq.n_virtual == 0) return nullptr;
  const auto at = std::ranges::find(learned_, seq.request.prefix, &Learned::content);
  QR_CHECK(at != learned_.end(), "submit() takes known prefixes alone");
  return &*at;
}

int Pasts::begin(Sequence& seq) {
  const Learned* learned = this->learned(seq);
  seq.kv.n_lead = seq.n_prompt - 1;
  seq.kv.whose = seq.request.tenant;
  seq.kv.n_copies = seq.budget.n_kept();
  const int n_whole = seq.n_virtual / cache_.block_tokens();
  if (learned != nullptr) cache_.share(seq.kv, learned->kv, n_whole);
  seq.n_computed = n_whole * cache_.block_tokens();
  if (seq.may_match()) seq.n_computed = cache_.extend(seq.kv, findable_of(seq));
  return seq.n_computed;
}

bool Pasts::finish_virtual(Sequence& seq) {
  if (seq.n_computed >= seq.n_virtual) return true;
  if (!cache_.copy_next_block(seq.kv, learned(seq)->kv)) return false;
  seq.follows.n_copied = seq.n_virtual - seq.n_computed;
  seq.n_computed = seq.n_virtual;
  return true;
}

int Pasts::begin_block(Sequence& seq) {
  if (std::exchange(seq.began_block, true) || !seq.may_match()) return 0;
  const auto n_whole = static_cast<int>(seq.kv.table.size());
  if (seq.n_computed != n_whole * cache_.block_tokens() || seq.kv.n_indexed != n_whole) return 0;
  const int n = cache_.copy_part(seq.kv, findable_of(seq));
  seq.follows.n_copied = n;
  seq.n_computed += n;
  return n;
}

void Pasts::take(Sequence& seq, int n_known) {
  accounts_.reused(seq, std::max(n_known, seq.n_virtual) - std::max(seq.n_computed, seq.n_virtual));
  seq.n_computed = n_known;
}

bool Pasts::drop(Sequence& seq) {
  if (!seq.must_drop()) return true;
  QR_CHECK(std::ssize(seq.kv.table) == seq.budget.n_blocks(), "what is behind a prompt was computed before it dropped");
  if (!cache_.drop_blocks(seq.kv, seq.budget.choose())) return false;
  seq.own = {};
  accounts_.dropped(seq);
  return true;
}

void Pasts::index(Sequence& seq) {
  const int n_before = seq.kv.n_indexed;
  int n_known = cache_.index(seq.kv, prefix_of(seq), seq.n_computed);
  // What was copied or brought back it has not computed now; the first that was not indexed is the one copied.
  if (n_known > 0) n_known = std::max(n_known - seq.follows.n_copied - seq.n_restored, 0);
  if (seq.kv.n_indexed > n_before) seq.follows.n_copied = seq.n_restored = 0;
  accounts_.wasted(seq, n_known);
}

void Pasts::give_back(Sequence& seq) {
  cache_.release(seq.kv);
  seq.n_computed = 0;
  seq.follows.n_copied = seq.n_restored = 0;
  seq.began_block = false;
  seq.budget.forget();
}

}  // namespace quire
