#include "backend/cpu/pool.h"

#include <string>

#include "base/check.h"
#include "base/thread.h"

namespace quire {
namespace {

void pause_cpu() { __builtin_ia32_pause(); }

// About 100 µs of pauses: longer than the host work between two ops, shorter than a scheduler's patience.
constexpr int kSpins = 4000;

}  // namespace

WorkerPool::WorkerPool(int n_threads, bool pin) {
  QR_CHECK(n_threads >= 1);
  // Spinning on a core that another thread of ours needs only delays the join.
  const bool is_room = n_threads <= n_usable_cpus();
  spins_ = is_room ? kSpins : 0;
  const std::vector<int> cpus = pin && is_room ? order_by_core(allowed_cpus()).cpus : std::vector<int>();
  for (int i = 1; i < n_threads; ++i) {
    const int cpu = static_cast<size_t>(i) < cpus.size() ? cpus[static_cast<size_t>(i)] : -1;
    workers_.emplace_back([this, i, cpu] { worker(i, cpu); });
  }
}

WorkerPool::~WorkerPool() {
  stop_ = true;
  ++epoch_;
  epoch_.notify_all();
  for (std::thread& thread : workers_) thread.join();
}

bool WorkerPool::take_and_run() {
  const uint64_t seen = state_.load(std::memory_order_acquire);
  if ((seen & 0xffffffffU) >= seen >> kCountShift) return false;
  const uint64_t taken = state_.fetch_add(1, std::memory_order_acq_rel);
  const auto task = static_cast<int64_t>(taken & 0xffffffffU);
  if (task >= static_cast<int64_t>(taken >> kCountShift)) return false;
  call_(context_, task);
  n_done_.fetch_add(1, std::memory_order_release);
  return true;
}

void WorkerPool::fork_join(int64_t n_tasks, Call call, void* context) {
  QR_DCHECK(n_tasks < int64_t{1} << 20);
  if (n_tasks <= 0) return;
  ++n_forks_;
  call_ = call;
  context_ = context;
  n_done_.store(0, std::memory_order_relaxed);
  state_.store(static_cast<uint64_t>(n_tasks) << kCountShift, std::memory_order_seq_cst);
  if (n_parked_.load(std::memory_order_seq_cst) > 0) {
    ++epoch_;
    epoch_.notify_all();
  }
  while (take_and_run()) {
  }
  int spins = 0;
  while (n_done_.load(std::memory_order_acquire) < n_tasks) {
    if (++spins < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // a worker lost its core in the middle of a task
    }
  }
}

void WorkerPool::worker(int index, int cpu) {
  set_thread_name("qr-worker-" + std::to_string(index));
  // Pinning is an optimisation: where it is refused the thread simply stays movable.
  if (cpu >= 0) static_cast<void>(pin_thread(cpu));
  int idle = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (take_and_run()) {
      idle = 0;
    } else if (++idle < spins_) {
      pause_cpu();
    } else {
      const uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
      n_parked_.fetch_add(1, std::memory_order_seq_cst);
      const uint64_t seen = state_.load(std::memory_order_seq_cst);
      const bool work = (seen & 0xffffffffU) < seen >> kCountShift;
      if (!work && !stop_.load()) epoch_.wait(epoch);
      n_parked_.fetch_sub(1, std::memory_order_seq_cst);
      idle = 0;
    }
  }
}

}  // namespace quire
