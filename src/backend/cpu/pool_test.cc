#include "backend/cpu/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/thread.h"

namespace quire {
namespace {

// Each task counts itself; nobody but its own runner writes there.
std::vector<int> times_run(WorkerPool& pool, int64_t n_tasks) {
  std::vector<int> out(static_cast<size_t>(n_tasks));
  pool.run(n_tasks, [&](int64_t task) { ++out[static_cast<size_t>(task)]; });
  return out;
}

class PoolOf : public testing::TestWithParam<int> {};  // threads

TEST_P(PoolOf, RunsEveryTaskOnce) {
  WorkerPool pool(GetParam(), false);
  EXPECT_EQ(pool.n_threads(), GetParam());
  for (const int64_t n_tasks : {0, 1, 2, 3, 7, 64, 1000, 100'000}) {
    EXPECT_EQ(times_run(pool, n_tasks), std::vector<int>(static_cast<size_t>(n_tasks), 1)) << n_tasks;
  }
}

// On whatever thread it was thrown: the caller hears it when no task runs any more, and the next round is as ever.
TEST_P(PoolOf, WhatATaskThrowsIsTheCallersToHear) {
  WorkerPool pool(GetParam(), false);
  for (int64_t bad = 0; bad < 20; ++bad) {
    std::atomic<int> n_running{0};
    EXPECT_THROW(pool.run(20,
                          [&](int64_t task) {
                            ++n_running;
                            const bool throws = task == bad;
                            --n_running;
                            if (throws) throw std::bad_alloc();
                          }),
                 std::bad_alloc);
    EXPECT_EQ(n_running, 0);
    EXPECT_EQ(times_run(pool, 100), std::vector<int>(100, 1));
  }
}

// What tasks wrote is there when run() returns, round after round: a worker that comes late to a round does no harm.
TEST_P(PoolOf, JoinsBeforeItReturnsThroughManyForks) {
  WorkerPool pool(GetParam(), false);
  std::vector<int64_t> sums(7);
  for (int64_t round = 0; round < 20'000; ++round) {
    const int64_t n_tasks = 1 + round % 7;
    pool.run(n_tasks, [&](int64_t task) { sums[static_cast<size_t>(task)] += round; });
  }
  for (int64_t task = 0; task < 7; ++task) {
    int64_t expected = 0;
    for (int64_t round = 0; round < 20'000; ++round) expected += task < 1 + round % 7 ? round : 0;
    EXPECT_EQ(sums[static_cast<size_t>(task)], expected) << task;
  }
}

// What a thread keeps under its number nobody else touches.
TEST_P(PoolOf, TellsTasksTheirThread) {
  WorkerPool pool(GetParam(), false);
  std::vector<std::set<std::thread::id>> ids(static_cast<size_t>(GetParam()));
  std::vector<int64_t> n_run(static_cast<size_t>(GetParam()));
  for (int round = 0; round < 1000; ++round) {
    pool.run(7, [&](int64_t, int thread) {
      ids.at(static_cast<size_t>(thread)).insert(std::this_thread::get_id());
      ++n_run.at(static_cast<size_t>(thread));
    });
  }
  EXPECT_EQ(ids[0], std::set{std::this_thread::get_id()});
  std::set<std::thread::id> all;
  int64_t n_all = 0;
  for (size_t t = 0; t < ids.size(); ++t) {
    EXPECT_LE(ids[t].size(), 1U) << t;
    all.insert(ids[t].begin(), ids[t].end());
    n_all += n_run[t];
  }
  EXPECT_EQ(all.size(), static_cast<size_t>(std::count_if(ids.begin(), ids.end(), [](auto& s) { return !s.empty(); })));
  EXPECT_EQ(n_all, 7000);
}

// More threads than CPUs never spin: each fork finds them asleep and wakes them.
TEST(Pool, WakesWorkersThatSleep) {
  const int n = n_usable_cpus() + 1;
  WorkerPool pool(n, false);
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> n_there{0};
    pool.run(n, [&](int64_t) {
      ++n_there;
      while (n_there < n) std::this_thread::yield();
    });
    EXPECT_EQ(n_there, n);
  }
}

TEST_P(PoolOf, EndsWithoutEverHavingRun) {
  for (int i = 0; i < 20; ++i) WorkerPool(GetParam(), false);
}

INSTANTIATE_TEST_SUITE_P(Threads, PoolOf, testing::Values(1, 2, 5));

// Seats on two nodes: the caller's and two workers' on the first, one worker's on the second.
const std::vector<Seat> kTwoNodes = {{-1, 0}, {-1, 0}, {-1, 1}, {-1, 0}};
constexpr std::string_view kSecondNodes = "qr-worker-2";

TEST(Pool, RunsEveryNodesTasksOnce) {
  WorkerPool pool(kTwoNodes);
  EXPECT_EQ(pool.n_nodes(), 2);
  EXPECT_EQ(pool.n_threads_of(0), 3);
  EXPECT_EQ(pool.n_threads_of(1), 1);
  for (int round = 0; round < 2000; ++round) {
    const int64_t first = round % 5, second = round % 7;
    const int64_t ends[] = {first, first + second};
    std::vector<int> n_times(static_cast<size_t>(first + second));
    pool.run(ends, round % 3 == 0, [&](int64_t task) { ++n_times[static_cast<size_t>(task)]; });
    ASSERT_EQ(n_times, std::vector<int>(n_times.size(), 1)) << round;
    ASSERT_EQ(times_run(pool, first), std::vector<int>(static_cast<size_t>(first), 1)) << round;
  }
}

TEST(Pool, AtHomeATaskIsRunByAThreadOfItsNode) {
  WorkerPool pool(kTwoNodes);
  for (int round = 0; round < 200; ++round) {
    const int64_t ends[] = {20, 30};
    std::vector<std::string> names(30);
    pool.run(ends, true, [&](int64_t task) { names[static_cast<size_t>(task)] = thread_name(); });
    for (size_t task = 0; task < names.size(); ++task) {
      ASSERT_EQ(names[task] == kSecondNodes, task >= 20) << names[task] << ' ' << task;
    }
  }
}

// Every task waits for the others, so each is run by a thread of its own, though all are the second node's.
TEST(Pool, ThreadsHelpANodeThatHasMoreToDo) {
  WorkerPool pool(kTwoNodes);
  std::atomic<int> n_there{0};
  const int64_t ends[] = {0, 4};
  pool.run(ends, false, [&](int64_t) {
    ++n_there;
    while (n_there < 4) std::this_thread::yield();
  });
  EXPECT_EQ(n_there, 4);
}

TEST(Pool, SeatsAreTheCpusOfThreadsAndTheirNodes) {
  const int n = n_usable_cpus();
  const std::vector<int> cpus = cpus_for(n);
  const std::vector<Seat> seats = choose_seats(n, true);
  ASSERT_EQ(seats.size(), static_cast<size_t>(n));
  EXPECT_EQ(seats.front().cpu, -1);
  EXPECT_EQ(seats.front().node, 0);
  for (size_t i = 1; i < seats.size(); ++i) {
    EXPECT_EQ(seats[i].cpu, cpus[i]);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_EQ(seats[i].node == seats[j].node, node_of(cpus[i]) == node_of(cpus[j])) << i << ' ' << j;
    }
  }
  for (const Seat& seat : choose_seats(n + 1, true)) EXPECT_EQ(seat.cpu, -1);
  for (const Seat& seat : choose_seats(n, false)) EXPECT_EQ(seat.node, 0);
}

TEST(Pool, WithOneTaskOrOneThreadTheCallerDoesIt) {
  const auto caller = std::this_thread::get_id();
  WorkerPool two(2, false);
  two.run(1, [&](int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  WorkerPool one(1, false);
  std::vector<int64_t> order;
  one.run(4, [&](int64_t task) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(task);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3}));
}

// Every task waits for the others, so each is run by a thread of its own.
TEST(Pool, WorkersAreNamedAndPinnedToDifferentCores) {
  const CpuOrder order = order_by_core(allowed_cpus());
  const int n = std::min(n_usable_cpus(), 4);
  if (n < 2) GTEST_SKIP() << "one CPU";
  WorkerPool pool(n, true);
  std::vector<std::string> names(static_cast<size_t>(n));
  std::vector<std::vector<int>> masks(static_cast<size_t>(n));
  std::atomic<int> n_there{0};
  pool.run(n, [&](int64_t task) {
    ++n_there;
    while (n_there < n) std::this_thread::yield();
    names[static_cast<size_t>(task)] = thread_name();
    masks[static_cast<size_t>(task)] = allowed_cpus();
  });
  std::set<int> cpus;
  for (size_t t = 0; t < names.size(); ++t) {
    if (names[t] == thread_name()) continue;  // the caller, which stays movable
    const int index = std::stoi(names[t].substr(names[t].rfind('-') + 1));
    EXPECT_EQ(names[t], "qr-worker-" + std::to_string(index));
    EXPECT_EQ(masks[t], std::vector<int>{order.cpus[static_cast<size_t>(index)]});
    cpus.insert(masks[t].front());
  }
  EXPECT_EQ(cpus.size(), static_cast<size_t>(n) - 1);
}

}  // namespace
}  // namespace quire
