// The truth: every op as plain loops over its definition, in double where the definition leaves the order of a sum
// open. Slow, single-threaded, independent of the CPU backend's kernels and layouts; for tests and for
// `--backend ref`.
#pragma once
#include <memory>

#include "ops/ops.h"

namespace quire {

std::unique_ptr<Ops> make_ref_ops();

}  // namespace quire
