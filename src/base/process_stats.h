// What a process takes of its machine, under the names that every Prometheus client library gives it.
#pragma once
#include <cstdint>

#include "base/metrics.h"

namespace quire {

// Bytes of this process that are in memory; 0 where the system does not say. Any thread.
int64_t resident_bytes();

// Sets process_cpu_seconds_total, process_start_time_seconds, process_resident_memory_bytes,
// process_virtual_memory_bytes, process_open_fds, process_max_fds, and quire_heap_bytes{state}: what of the C library's
// allocator is in use, and what it has free (which may be with the system again); what the system does not tell stays
// away. Any thread; others that allocate may wait, as for FreedPages.
void refresh_process_stats(Metrics& metrics);

}  // namespace quire
