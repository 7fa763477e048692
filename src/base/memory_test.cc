#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace quire {
namespace {

TEST(Memory, IsBetweenNothingAndAllThereIs) {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), all);
}

TEST(Memory, TheAddressSpaceIsALimitToo) {
  constexpr rlim_t kRoom = rlim_t{256} << 20;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlim_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  rlimit little = before;
  little.rlim_cur = n_pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom;
  if (setrlimit(RLIMIT_AS, &little) != 0) GTEST_SKIP() << "the limit cannot be set";
  const int64_t left = available_memory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  constexpr int64_t kGivenBack = 1 << 20;  // what the process may have given back since it was asked how much it has
  EXPECT_LE(left, static_cast<int64_t>(kRoom) + kGivenBack);
}

}  // namespace
}  // namespace quire
