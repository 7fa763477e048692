// A runtime that launches steps that are alike as one. Work waits for wait(), which looks at each run of launches
// between copies: one that was asked for before, the same kernels with the same arguments, is recorded, and replayed
// from then on. Tables of whole numbers differ from step to step, but where they lie does not, so decoding has a graph
// for each number of rows and of chunks of keys. What is replayed is bounded; the longest unused is forgotten. Bits are
// those of single launches. Arguments are compared byte by byte, padding too: where that differs a step is launched as
// it is, no more than that. Where the driver refuses three times in a
// row, launches stay single. Owner as runtime.h's.
#pragma once
#include <memory>

#include "backend/cuda/runtime.h"

namespace quire::cuda {

std::shared_ptr<Runtime> with_replays(std::shared_ptr<Runtime> runtime);

}  // namespace quire::cuda
