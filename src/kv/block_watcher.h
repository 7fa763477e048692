// Who wants to know which blocks are in memory: told of each that becomes findable and of each that is found no more,
// in order, so that a copy of what is there can be kept elsewhere. What it is told of is the first group's: of a
// window's block that goes on its own nothing is said. It decides nothing, must not throw and must not wait. Engine
// thread.
#pragma once
#include "base/hash128.h"

namespace quire {

struct LeavingBlock;

class BlockWatcher {
 public:
  virtual ~BlockWatcher() = default;

  // Computed, or brought by a tier. Its parent, where it has one, is in memory. Views, for the call alone.
  virtual void stored(const LeavingBlock& block) = 0;
  // No block below it is in memory.
  virtual void removed(const Hash128& name) = 0;
  // What was told since the last time belongs together.
  virtual void step_ended() = 0;
};

}  // namespace quire
