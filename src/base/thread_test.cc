#include "base/thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

namespace quire {
namespace {

TEST(Thread, NameIsSetAndCut) {
  std::thread([] {
    set_thread_name("quire-io-0");
    EXPECT_EQ(thread_name(), "quire-io-0");
    set_thread_name("a-name-longer-than-the-kernel-allows");
    EXPECT_EQ(thread_name(), "a-name-longer-t");
  }).join();
}

TEST(Thread, OneStepsBehindTheOthersAndThoseStay) {
  const int before = getpriority(PRIO_PROCESS, 0);
  std::thread([before] {
    step_behind_others(5);
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), std::min(before + 5, 19));
    step_behind_others(100);
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), 19);
  }).join();
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

TEST(Thread, AllowedCpusAreSortedAndHoldTheCurrentOne) {
  const auto cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  EXPECT_TRUE(std::binary_search(cpus.begin(), cpus.end(), sched_getcpu()));
}

TEST(Thread, UsableIsAtLeastOneAndAtMostTheMask) {
  EXPECT_GE(n_usable_cpus(), 1);
  EXPECT_LE(n_usable_cpus(), static_cast<int>(allowed_cpus().size()));
  EXPECT_GE(cgroup_cpu_quota(), 0.0);
}

// A topology of nothing but lists of siblings.
class Topology : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("quire-topology-" + std::to_string(getpid()));
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::vector<int>& cpus, const std::string& siblings) const {
    for (const int cpu : cpus) {
      const auto folder = root_ / ("cpu" + std::to_string(cpu)) / "topology";
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "thread_siblings_list") << siblings << "\n";
    }
  }
  std::filesystem::path root_;
};

TEST_F(Topology, OneCpuOfEachCoreComesFirst) {
  put({0, 4}, "0,4");
  put({1, 5}, "1,5");
  put({2, 6}, "2,6");
  put({3, 7}, "3,7");
  const CpuOrder whole = order_by_core({0, 1, 2, 3, 4, 5, 6, 7}, root_);
  EXPECT_EQ(whole.n_cores, 4);
  EXPECT_EQ(whole.cpus, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  // A mask that leaves a core one CPU, another none.
  const CpuOrder part = order_by_core({0, 3, 4, 5, 7}, root_);
  EXPECT_EQ(part.n_cores, 3);
  EXPECT_EQ(part.cpus, (std::vector<int>{0, 3, 5, 4, 7}));
}

TEST_F(Topology, SiblingsMayBeNeighboursAndCoresOfDifferentWidth) {
  put({0, 1}, "0-1");
  put({2, 3, 4, 5}, "2-5");
  put({6}, "6");
  const CpuOrder order = order_by_core({0, 1, 2, 3, 4, 5, 6}, root_);
  EXPECT_EQ(order.n_cores, 3);
  EXPECT_EQ(order.cpus, (std::vector<int>{0, 2, 6, 1, 3, 4, 5}));
}

TEST_F(Topology, ACpuThatSaysNothingIsACoreOfItsOwn) {
  put({0, 1}, "0-1");
  const CpuOrder order = order_by_core({0, 1, 2, 3}, root_);
  EXPECT_EQ(order.n_cores, 3);
  EXPECT_EQ(order.cpus, (std::vector<int>{0, 2, 3, 1}));
  EXPECT_EQ(order_by_core({5, 9}, "/nowhere").n_cores, 2);
}

TEST_F(Topology, ACpuIsNextToTheNodeThatItNames) {
  put({0, 1, 2, 3}, "0-3");
  for (const auto& [cpu, entry] : {std::pair{0, "node0"}, {1, "node12"}, {2, "nodes"}, {3, "node-1"}}) {
    std::filesystem::create_directories(root_ / ("cpu" + std::to_string(cpu)) / entry);
  }
  EXPECT_EQ(node_of(0, root_), 0);
  EXPECT_EQ(node_of(1, root_), 12);
  EXPECT_EQ(node_of(2, root_), 0);
  EXPECT_EQ(node_of(3, root_), 0);
  EXPECT_EQ(node_of(4, root_), 0);  // no such CPU
  EXPECT_EQ(node_of(4, "/nowhere"), 0);
}

TEST(Thread, ThreadsGetCpusInTheOrderOfCoresWhereThereAreEnough) {
  const int n = n_usable_cpus();
  const std::vector<int> cpus = cpus_for(n);
  const std::vector<int> order = order_by_core(allowed_cpus()).cpus;
  EXPECT_EQ(cpus, std::vector<int>(order.begin(), order.begin() + n));
  EXPECT_EQ(cpus_for(1), std::vector<int>{order.front()});
  EXPECT_EQ(cpus_for(n + 1), std::vector<int>());
}

TEST(Thread, UsableCoresAreAtLeastOneAndAtMostTheCpus) {
  EXPECT_GE(n_usable_cores(), 1);
  EXPECT_LE(n_usable_cores(), n_usable_cpus());
  std::vector<int> cpus = order_by_core(allowed_cpus()).cpus;
  std::sort(cpus.begin(), cpus.end());
  EXPECT_EQ(cpus, allowed_cpus());
}

TEST(Thread, PinsToAnAllowedCpuOnly) {
  const int cpu = allowed_cpus().back();
  std::thread([cpu] {
    ASSERT_TRUE(pin_thread(cpu));
    EXPECT_EQ(sched_getcpu(), cpu);
    EXPECT_EQ(allowed_cpus(), std::vector<int>{cpu});  // the mask of the calling thread
    const auto bad = pin_thread(1 << 20);
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code, Code::invalid);
    EXPECT_FALSE(pin_thread(-1));
    EXPECT_EQ(sched_getcpu(), cpu);
  }).join();
}

}  // namespace
}  // namespace quire
