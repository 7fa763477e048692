// What the engine holds, looked up in full: every sequence, and every block's references against its holders. For tests
// and debugging; O(blocks). Engine thread.
#pragma once
#include "engine/scheduler.h"
#include "engine/snapshot.h"

namespace quire {

// All of a snapshot but its stats and the costs of those that ended.
Snapshot audit(const Scheduler& scheduler, const KvCache& cache);

}  // namespace quire
