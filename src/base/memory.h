// How much memory this process may still take. Any thread.
#pragma once
#include <cstdint>

namespace quire {

// Bytes that can be allocated without swapping or being killed, as of now: what the kernel calls available (free memory
// and the file cache that it can drop), cut to what the cgroup (v2 or v1) and its parents and the address space
// (RLIMIT_AS) leave. At least 0; a system that says nothing counts as having none.
int64_t available_memory();

}  // namespace quire
