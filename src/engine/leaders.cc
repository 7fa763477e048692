#include "engine/leaders.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

// Leading tokens that two sequences of different salts and the same virtual tokens may share.
int n_public(const Sequence& a, const Sequence& b) {
  const auto own = [](const Sequence& s) {
    return s.request.cache_salt == 0 ? std::numeric_limits<int>::max() : s.n_virtual + s.request.n_public;
  };
  return std::min(own(a), own(b));
}

// Leading tokens whose keys and values do not depend on which of the two they are computed for.
int n_alike(const Sequence& a, const Sequence& b) {
  constexpr int kAll = std::numeric_limits<int>::max();
  const uint64_t learned = a.request.learned();
  if (learned == b.request.learned() && a.n_base == b.n_base) return kAll;
  const auto own = [](const Sequence& s) { return s.request.learned() == 0 ? kAll : s.n_base; };
  return std::min(own(a), own(b));
}

}  // namespace

// A chain of leaders is no longer than all that run.
void Leaders::lend_places(std::vector<std::unique_ptr<Sequence>>& running) {
  for (size_t i = 0; i < running.size(); ++i) {
    for (size_t n = running.size(); n > 0 && running[i]->follows.leader != 0; --n) {
      const auto place = running.begin() + static_cast<std::ptrdiff_t>(i);
      const auto leader = std::find_if(place, running.end(),
                                       [&](const auto& other) { return other->id == running[i]->follows.leader; });
      if (leader == running.end()) break;
      std::rotate(place, leader, leader + 1);
    }
  }
}

// They compare from what `seq` has on: below it equal pasts are equal blocks.
void Leaders::find(Sequence& seq, std::span<const std::unique_ptr<Sequence>> running, int64_t n_plan) const {
  seq.follows.leader = 0;
  if (!sharing_ || !seq.may_match()) return;
  const int block = pasts_.cache().block_tokens();
  const int n_have = seq.n_computed, n_findable = seq.n_findable();
  if (n_have >= n_findable) return;
  for (const auto& other : running) {
    if (other.get() == &seq || other->moved_plan != n_plan || other->kv.n_dropped > 0) continue;
    const int n_alike = quire::n_alike(seq, *other);
    if (n_alike <= n_have) continue;
    const auto last = static_cast<size_t>(n_have / block) - 1;
    const bool same_past =
        n_have == 0 || (other->kv.table.size() > last && other->kv.table[last][0].id() == seq.kv.table[last][0].id());
    if (!same_past || static_cast<int>(other->tokens.size()) < n_have) continue;
    const auto end = seq.tokens.begin() + n_findable;
    const auto differ =
        std::mismatch(seq.tokens.begin() + n_have, end, other->tokens.begin() + n_have, other->tokens.end());
    const auto n_common = static_cast<int>(differ.first - seq.tokens.begin());
    const bool all = differ.first == end && n_common <= n_alike;
    int n_shared = all ? n_common : std::min(n_common, n_alike) / block * block;
    if (other->request.cache_salt != seq.request.cache_salt) n_shared = std::min(n_shared, n_public(seq, *other));
    // What another tenant has within a block is not told (PrefixTree::part).
    const bool same_owner =
        other->request.cache_salt == seq.request.cache_salt && other->request.tenant == seq.request.tenant;
    if (!same_owner) n_shared = n_shared / block * block;
    if (n_shared <= std::max({n_have, other->n_computed, seq.follows.leader == 0 ? 0 : seq.follows.n_shared})) continue;
    seq.follows.leader = other->id;
    seq.follows.n_shared = n_shared;
  }
}

// The end of a common past that is no whole block: a copy, for both will write behind it. Where there is no room the
// tokens are computed.
void Leaders::take_from(Sequence& seq, const Sequence& leader) {
  seq.follows.leader = 0;
  const int block = pasts_.cache().block_tokens();
  if (seq.follows.n_shared / block > seq.n_computed / block) return;  // not even the whole blocks were found
  const auto next = static_cast<size_t>(seq.n_computed / block);
  if (leader.kv.n_dropped > 0) return;
  const bool same_past = next == 0 || leader.kv.table[next - 1][0].id() == seq.kv.table[next - 1][0].id();
  if (!same_past || !pasts_.cache().copy_next_block(seq.kv, leader.kv)) return;
  seq.follows.n_copied = seq.follows.n_shared - seq.n_computed;
  pasts_.take(seq, seq.follows.n_shared);
}

bool Leaders::waits(Sequence& seq, std::span<const std::unique_ptr<Sequence>> running, int64_t n_plan) {
  if (seq.follows.leader == 0) return false;
  seq.moved_plan = 0;
  const auto leader =
      std::find_if(running.begin(), running.end(), [&](const auto& other) { return other->id == seq.follows.leader; });
  const bool moves = leader != running.end() && (*leader)->moved_plan == n_plan;
  if (!moves || (*leader)->n_computed >= seq.follows.n_shared) {
    pasts_.extend(seq);
    const bool has_more = leader != running.end() && (*leader)->n_computed >= seq.follows.n_shared;
    if (has_more && seq.follows.n_shared > seq.n_computed) {
      take_from(seq, **leader);
    } else {
      find(seq, running, n_plan);
    }
  }
  if (seq.follows.leader != 0) seq.moved_plan = n_plan;
  return seq.follows.leader != 0;
}

}  // namespace quire
