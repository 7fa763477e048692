// What this machine can do, measured now: the limits that benchmarks are judged by. Machines are shared and flip
// between states, so probe before and after each measurement.
#pragma once
#include "base/result.h"

namespace quire {

// Bytes per second that n_threads, one a core, read together from 2 MiB pages of their own memory nodes, far more than
// caches hold; the best of a few passes. Code::exhausted when there is no memory for the buffer.
Result<double> probe_read_bandwidth(int n_threads);

}  // namespace quire
