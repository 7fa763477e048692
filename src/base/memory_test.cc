#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace quire {
namespace {

// Bytes of it that this process has taken.
int64_t address_space() {
  int64_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  return n_pages * sysconf(_SC_PAGESIZE);
}

TEST(Memory, IsBetweenNothingAndAllThereIs) {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), all);
}

TEST(Memory, TheAddressSpaceIsALimitToo) {
  constexpr rlim_t kRoom = rlim_t{256} << 20;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const int64_t size = address_space();
  rlimit little = before;
  little.rlim_cur = static_cast<rlim_t>(size) + kRoom;
  if (setrlimit(RLIMIT_AS, &little) != 0) GTEST_SKIP() << "the limit cannot be set";
  const int64_t left = available_memory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  const int64_t given_back = std::max(int64_t{0}, size - address_space());  // since it was asked how much it has
  EXPECT_LE(left, static_cast<int64_t>(kRoom) + given_back);
}

}  // namespace
}  // namespace quire
