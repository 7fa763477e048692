// What attention takes: AttentionTask, by how much scores fall with distance, and where keys lie that are not packed
// yet. Apart from kernels/tables.h, which the products of every weight format include: these are not compiled anew for
// what attention alone reads.
#pragma once
#include "backend/cpu/kernels/tables.h"

namespace quire {

// AttentionKernels::run and ::join are always given one of these.
struct LeaningTask : AttentionTask {
  // Of the first query head on, one each: what a score loses for each key that lies between its key and the last that
  // the row sees; null: nothing.
  const float* slopes = nullptr;
  // Of codecs that pack strips: the same over the keys that lie in the strip of each row's last one.
  const LeaningTask* tail = nullptr;
};

}  // namespace quire
