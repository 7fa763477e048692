// Requests that are explained instead of answered: they wait in order of arrival, and a step explains one, so that
// however many come nobody's step grows by more than one look-up of a whole context. One engine's; engine thread only.
#pragma once
#include <deque>
#include <memory>
#include <numeric>

#include "engine/pasts.h"
#include "kv/tiers/tier_chain.h"

namespace quire {

// Evicted blocks that are remembered: so many for each that there is, and in all.
inline constexpr int64_t kDeparturesPerBlock = 64, kMostDepartures = 1 << 16;

class Explains {
 public:
  // All outlive it.
  struct Uses {
    const Pasts& pasts;
    const TierChain& tiers;
  };
  explicit Explains(const Uses& uses) : uses_(uses) {}

  // Throws std::bad_alloc with nothing changed, `seq` included.
  void add(std::unique_ptr<Sequence>&& seq);
  // Null: none waits; it is not here.
  std::unique_ptr<Sequence> remove_first();
  std::unique_ptr<Sequence> remove(SeqId id);
  int n_waiting() const { return static_cast<int>(waiting_.size()); }

  // Looks at every block of the prompt once for each root, at names of as many in tiers, and at n_siblings stored
  // blocks. Changes nothing.
  Explanation explain(const Sequence& seq, int64_t now_ns) const;

 private:
  struct Reach {
    int memory = 0, known = 0, most = 0;  // tokens, virtual ones among them
    TokensByTier below{};
    int end() const { return std::accumulate(below.begin(), below.end(), memory); }
  };
  TokensByTier below(const Prefix& prefix, int begin, int most) const;
  bool find_departure(const Prefix& prefix, const Reach& reach, int64_t now_ns, Explanation& out) const;
  bool find_other_root(const Sequence& seq, const Reach& reach, Explanation& out) const;

  const Uses uses_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
};

}  // namespace quire
