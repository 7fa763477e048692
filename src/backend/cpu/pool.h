// Fork and join for one op: the caller publishes a task count and a function, workers and caller take task numbers from
// one counter, the caller returns when all are done. Workers spin for a moment between ops (a decode step is a hundred
// forks a few microseconds apart), then park. Which worker runs which task never changes a result.
// Owner: the thread that calls run(); one at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace quire {

class WorkerPool {
 public:
  // n_threads ≥ 1 counts the caller. With `pin`, worker i sits on the i-th of the allowed CPUs where there are enough
  // of them, counted through the physical cores first (order_by_core); the caller is left where it is.
  WorkerPool(int n_threads, bool pin);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int n_threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Times that work was handed out to workers and waited for, since the pool was made. The owner's.
  int64_t n_forks() const { return n_forks_; }

  // fn(task) for every task in [0, n_tasks). REQUIRES n_tasks < 2^20; fn must not call run().
  template <class Fn>
  void run(int64_t n_tasks, Fn&& fn) {
    if (n_tasks == 1 || workers_.empty()) {
      for (int64_t task = 0; task < n_tasks; ++task) fn(task);
      return;
    }
    fork_join(
        n_tasks, [](void* context, int64_t task) { (*static_cast<std::remove_reference_t<Fn>*>(context))(task); }, &fn);
  }

 private:
  using Call = void (*)(void* context, int64_t task);
  // next task | number of tasks, in one word: a worker that comes late takes a number beyond the count, or a task of
  // the round that is on now, and either is right.
  static constexpr int kCountShift = 32;

  void fork_join(int64_t n_tasks, Call call, void* context);
  bool take_and_run();              // false when no task was left
  void worker(int index, int cpu);  // cpu: to sit on; -1: any

  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int64_t> n_done_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // what parked workers wait on
  std::atomic<int> n_parked_{0};
  std::atomic<bool> stop_{false};
  Call call_ = nullptr;
  void* context_ = nullptr;
  int64_t n_forks_ = 0;
  int spins_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace quire
