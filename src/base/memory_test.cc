#include "base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace quire {
namespace {

TEST(Memory, IsBetweenNothingAndAllThereIs) {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), all);
}

TEST(Memory, TheAddressSpaceIsALimitToo) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit none = before;
  none.rlim_cur = 1;  // less than is mapped already
  if (setrlimit(RLIMIT_AS, &none) != 0) GTEST_SKIP() << "the limit cannot be set";
  const int64_t left = available_memory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace quire
