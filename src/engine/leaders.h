// One computes, the others wait: a sequence whose past another is computing in this very step gets no grant until that
// one, its leader, has what both need, and then takes it as a hit. One scheduler's; engine thread only.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/pasts.h"

namespace quire {

class Leaders {
 public:
  // Without sharing (no prefix cache) nobody is led. `pasts` outlives it.
  Leaders(Pasts& pasts, bool sharing) : pasts_(pasts), sharing_(sharing) {}

  // What others wait for is as urgent as the first of them: a leader that stands behind goes on that one's place.
  static void lend_places(std::vector<std::unique_ptr<Sequence>>& running);

  // Among those that run and have moved in plan number n_plan, the one that will have the longest common past beyond
  // what `seq` has: whole blocks, or all but the last token; whole blocks of what is public where the salts differ, and
  // of what comes before the first token that an adapter adds to where not both have it from there on.
  void find(Sequence& seq, std::span<const std::unique_ptr<Sequence>> running, int64_t n_plan) const;

  // Whether `seq` still waits. When its leader has what both need, or is gone, or does not move in this plan, what is
  // known is taken and perhaps another leader found. Leaders come before those who wait for them, so the first in the
  // policy's order waits in no step but for one that moves in it.
  bool waits(Sequence& seq, std::span<const std::unique_ptr<Sequence>> running, int64_t n_plan);

 private:
  void take_from(Sequence& seq, const Sequence& leader);

  Pasts& pasts_;
  const bool sharing_;
};

}  // namespace quire
