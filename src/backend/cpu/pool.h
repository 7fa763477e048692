// Fork and join for one op: the caller publishes a task count and a function, workers and caller take task numbers from
// one counter, the caller returns when all are done. Workers spin for a moment between ops (a decode step is a hundred
// forks a few microseconds apart), then park. On a machine of several memory nodes there is a counter for each: tasks
// that read what lies on a node are taken by its threads first. Which worker runs which task never changes a result.
// Owner: the thread that calls run(); one at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace quire {

// Where a thread sits: the CPU that it is pinned to (-1: none), and the memory node whose tasks it takes first.
struct Seat {
  int cpu = -1;
  int node = 0;
};
// Those of n_threads, the caller's first. With `pin`, on cpus_for(n_threads), where there are enough, and on their
// nodes, numbered from 0 as they come; else anywhere, on one node. The caller's seat is the first's: it is not pinned,
// but the others leave that CPU to it.
std::vector<Seat> choose_seats(int n_threads, bool pin);

class WorkerPool {
 public:
  // One thread for each seat, the first the caller. REQUIRES nodes numbered from 0, the caller's, a seat on each.
  explicit WorkerPool(const std::vector<Seat>& seats);
  WorkerPool(int n_threads, bool pin) : WorkerPool(choose_seats(n_threads, pin)) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int n_threads() const { return static_cast<int>(workers_.size()) + 1; }
  int n_nodes() const { return static_cast<int>(n_threads_of_.size()); }
  int n_threads_of(int node) const { return n_threads_of_[static_cast<size_t>(node)]; }
  // Times that work was handed out to workers and waited for, since the pool was made. The owner's.
  int64_t n_forks() const { return n_forks_; }

  // fn(task), or fn(task, thread) with the number of the thread that runs it, the caller's 0, for every task in
  // [0, n_tasks). REQUIRES n_tasks < 2^20; fn must not call run(). What a task throws, for want of memory, is thrown
  // here as std::bad_alloc once no task runs any more; others may have been done or not.
  template <class Fn>
  void run(int64_t n_tasks, Fn&& fn) {
    if (n_tasks == 1 || workers_.empty()) {
      for (int64_t task = 0; task < n_tasks; ++task) call(fn, task, 0);
      return;
    }
    fork_join({&n_tasks, 1}, call_of(fn));
  }
  // The same where tasks have a node: [ends[k − 1], ends[k]) are node k's, whose threads take them first. With
  // `at_home` no others do (memory that a task is the first to write lies on its writer's node), else whoever has none
  // left. REQUIRES ends.size() == n_nodes().
  template <class Fn>
  void run(std::span<const int64_t> ends, bool at_home, Fn&& fn) {
    if (workers_.empty() || n_nodes() == 1) return run(ends.back(), fn);
    fork_join(ends, call_of(fn), at_home);
  }

 private:
  struct Call {
    void (*run)(void* fn, int64_t task, int thread) = nullptr;
    void* fn = nullptr;
  };
  template <class Fn>
  static void call(Fn& fn, int64_t task, int thread) {
    if constexpr (std::is_invocable_v<Fn&, int64_t, int>) {
      fn(task, thread);
    } else {
      fn(task);
    }
  }
  template <class Fn>
  static Call call_of(Fn& fn) {
    return {[](void* of, int64_t task, int thread) { call(*static_cast<Fn*>(of), task, thread); }, &fn};
  }
  struct alignas(64) Queue {  // of a node
    // Next task, number of tasks and whether only its own threads may take one, in one word: a worker that comes late
    // takes a number beyond the count, or a task of the round that is on now, and either is right.
    std::atomic<uint64_t> state{0};
    int64_t first = 0;  // the round's task that this queue counts as 0
    bool has_tasks() const;
    // The next task's number in the round; -1 when there is none.
    int64_t take();
    int64_t take_for_other_node();
  };

  void fork_join(std::span<const int64_t> ends, Call call, bool at_home = false);
  bool take_and_run(size_t node, int thread);  // one of that node's tasks, or of another's; false: none was left
  bool has_work() const;
  void worker(int index, Seat seat);

  std::vector<int> n_threads_of_;    // a node
  std::unique_ptr<Queue[]> queues_;  // one for each
  alignas(64) std::atomic<int64_t> n_done_{0};
  std::atomic<bool> threw_{false};              // a task of this round
  alignas(64) std::atomic<uint32_t> epoch_{0};  // what parked workers wait on
  std::atomic<int> n_parked_{0};
  std::atomic<bool> stop_{false};
  Call call_;
  int64_t n_forks_ = 0;
  int spins_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace quire
