// What of a past lies in tiers below memory: whether it is brought or computed, and who waits for it. A sequence that
// loads runs, holds its place and gets no grant, as one that follows a leader; others go on. It is brought where that
// is sooner by what reads and steps have taken so far, and a load that is late is overtaken by computing. A tier that
// has to be asked first is asked only where its answer takes a small part of what computing would. One scheduler's;
// engine thread only.
#pragma once
#include <memory>
#include <span>

#include "engine/accounts.h"
#include "engine/pasts.h"
#include "engine/step_cost.h"
#include "kv/block_watcher.h"
#include "kv/tiers/tier_chain.h"

namespace quire {

class Loads {
 public:
  // All outlive it.
  struct Uses {
    Pasts& pasts;
    Accounts& accounts;
    const StepCost& cost;
    TierChain& tiers;
    BlockWatcher* watcher;  // may be null
  };
  explicit Loads(const Uses& uses) : uses_(uses) {}

  // Of a sequence that is admitted and has what match found: true where it waits for more.
  bool begin(Sequence& seq, int64_t now_ns);
  // Before a plan: takes in what has come. A sequence whose load is over, or late, has what came and waits no more.
  // Where nobody moves a device's copies are waited for.
  void poll(std::span<const std::unique_ptr<Sequence>> running, int64_t now_ns, bool nobody_moves);
  // Tells the tiers how long the blocks of `prefix` are to stay; how many do not, for a limit. May throw
  // std::bad_alloc.
  int retain(const Prefix& prefix, std::span<const RetentionRange> ranges, int64_t now_ns);

 private:
  bool ask(Sequence& seq, int64_t now_ns);
  bool choose(Sequence& seq, int64_t now_ns);
  size_t worth_loading(const Load& load) const;
  int64_t compute_ns(int first, size_t n_blocks) const;
  bool fetch(Sequence& seq, int64_t now_ns);
  bool goes_on(Sequence& seq, int64_t now_ns);
  std::shared_ptr<TierRead> read(const Prefix& prefix, Load& load);
  bool take_in(Load& load, bool waits, size_t& room);
  bool put_all(Load& load, bool waits, size_t& room) const;
  void arrived(Load& load, size_t i) const;
  int64_t put(const TierBlock& block, const GroupBlocks& to) const;
  void end(Sequence& seq);

  const Uses uses_;
};

}  // namespace quire
