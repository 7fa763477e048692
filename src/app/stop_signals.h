// How a command that serves is asked to stop: SIGTERM, SIGINT and SIGHUP, taken by the thread that asks for them here.
#pragma once
#include <signal.h>

#include <cstdint>
#include <functional>

namespace quire {

// Blocks them. Before any other thread exists, so that all inherit it.
sigset_t block_stop_signals();
void wait_for_stop_signal(const sigset_t& set);
// Calls stop(drain_ms), which blocks; a second signal meanwhile calls stop(0) from another thread, if there is one to
// be had that waits for it.
void drain_until_signal(const sigset_t& set, const std::function<void(int64_t ms)>& stop, int64_t drain_ms);

}  // namespace quire
