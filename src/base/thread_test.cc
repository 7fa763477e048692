#include "base/thread.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <thread>

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
