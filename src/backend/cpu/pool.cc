#include "backend/cpu/pool.h"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <string>

#include "base/check.h"
#include "base/thread.h"

namespace quire {
namespace {

void pause_cpu() { __builtin_ia32_pause(); }

// About 100 µs of pauses: longer than the host work between two ops, shorter than a scheduler's patience.
constexpr int kSpins = 4000;

// A queue's word: the next task in the low half, above it the number of tasks, in the highest bit whether they are for
// the node's own threads only.
constexpr int kCountShift = 32;
constexpr uint64_t kAtHome = uint64_t{1} << 63;

int64_t next_of(uint64_t word) { return static_cast<int64_t>(word & 0xffffffffU); }
bool any_left(uint64_t word) { return next_of(word) < static_cast<int64_t>((word & ~kAtHome) >> kCountShift); }

}  // namespace

std::vector<Seat> choose_seats(int n_threads, bool pin) {
  std::vector<Seat> out(static_cast<size_t>(n_threads));
  const std::vector<int> cpus = pin ? cpus_for(n_threads) : std::vector<int>();
  std::map<int, int> numbers;  // of the system's nodes
  for (size_t i = 0; i < cpus.size(); ++i) {
    const int node = numbers.try_emplace(node_of(cpus[i]), static_cast<int>(numbers.size())).first->second;
    out[i] = {i == 0 ? -1 : cpus[i], node};
  }
  return out;
}

WorkerPool::WorkerPool(const std::vector<Seat>& seats) {
  QR_CHECK(!seats.empty() && seats.front().node == 0);
  for (const Seat& seat : seats) {
    const auto node = static_cast<size_t>(seat.node);
    if (node >= n_threads_of_.size()) n_threads_of_.resize(node + 1);
    ++n_threads_of_[node];
  }
  QR_CHECK(*std::min_element(n_threads_of_.begin(), n_threads_of_.end()) > 0);
  queues_ = std::make_unique<Queue[]>(n_threads_of_.size());
  // Spinning on a core that another thread of ours needs only delays the join.
  const auto n_threads = static_cast<int>(seats.size());
  spins_ = n_threads <= n_usable_cpus() ? kSpins : 0;
  for (int i = 1; i < n_threads; ++i) {
    const Seat seat = seats[static_cast<size_t>(i)];
    workers_.emplace_back([this, i, seat] { worker(i, seat); });
  }
}

WorkerPool::~WorkerPool() {
  stop_ = true;
  ++epoch_;
  epoch_.notify_all();
  for (std::thread& thread : workers_) thread.join();
}

bool WorkerPool::Queue::has_tasks() const { return any_left(state.load(std::memory_order_seq_cst)); }

int64_t WorkerPool::Queue::take() {
  if (!any_left(state.load(std::memory_order_acquire))) return -1;
  const uint64_t taken = state.fetch_add(1, std::memory_order_acq_rel);
  return any_left(taken) ? first + next_of(taken) : -1;
}

// The word is the one that was looked at, so that a round whose tasks are for their own node is never mistaken for the
// one before.
int64_t WorkerPool::Queue::take_for_other_node() {
  uint64_t seen = state.load(std::memory_order_acquire);
  while (any_left(seen) && (seen & kAtHome) == 0) {
    if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) return first + next_of(seen);
  }
  return -1;
}

bool WorkerPool::take_and_run(size_t node, int thread) {
  const size_t n = n_threads_of_.size();
  int64_t task = queues_[node].take();
  for (size_t other = node + 1; task < 0 && other < node + n; ++other) task = queues_[other % n].take_for_other_node();
  if (task < 0) return false;
  try {
    call_.run(call_.fn, task, thread);
  } catch (const std::exception&) {  // on whatever thread: it is the caller's to hear
    threw_.store(true, std::memory_order_relaxed);
  }
  n_done_.fetch_add(1, std::memory_order_release);
  return true;
}

bool WorkerPool::has_work() const {
  return std::any_of(queues_.get(), queues_.get() + n_threads_of_.size(),
                     [](const Queue& queue) { return queue.has_tasks(); });
}

void WorkerPool::fork_join(std::span<const int64_t> ends, Call call, bool at_home) {
  const int64_t n_tasks = ends.back();
  QR_DCHECK(n_tasks < int64_t{1} << 20);
  if (n_tasks <= 0) return;
  ++n_forks_;
  call_ = call;
  n_done_.store(0, std::memory_order_relaxed);
  for (size_t k = 0; k < ends.size(); ++k) {
    const int64_t first = k == 0 ? 0 : ends[k - 1];
    queues_[k].first = first;
    queues_[k].state.store(static_cast<uint64_t>(ends[k] - first) << kCountShift | (at_home ? kAtHome : 0),
                           std::memory_order_seq_cst);
  }
  if (n_parked_.load(std::memory_order_seq_cst) > 0) {
    ++epoch_;
    epoch_.notify_all();
  }
  while (take_and_run(0, 0)) {
  }
  int spins = 0;
  while (n_done_.load(std::memory_order_acquire) < n_tasks) {
    if (++spins < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // a worker lost its core in the middle of a task
    }
  }
  if (threw_.exchange(false, std::memory_order_relaxed)) throw std::bad_alloc();
}

void WorkerPool::worker(int index, Seat seat) {
  set_thread_name("qr-worker-" + std::to_string(index));
  // Pinning is an optimisation: where it is refused the thread simply stays movable.
  if (seat.cpu >= 0) static_cast<void>(pin_thread(seat.cpu));
  const auto node = static_cast<size_t>(seat.node);
  int idle = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (take_and_run(node, index)) {
      idle = 0;
    } else if (++idle < spins_) {
      pause_cpu();
    } else {
      const uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
      n_parked_.fetch_add(1, std::memory_order_seq_cst);
      if (!has_work() && !stop_.load()) epoch_.wait(epoch);
      n_parked_.fetch_sub(1, std::memory_order_seq_cst);
      idle = 0;
    }
  }
}

}  // namespace quire
