#include "base/utc_time.h"

#include <gtest/gtest.h>

#include <limits>

namespace quire {
namespace {

TEST(UtcTime, HasFourDigitsForItsYearWhateverTheTime) {
  EXPECT_EQ(utc_time(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_time(951'782'400), "2000-02-29T00:00:00Z");
  EXPECT_EQ(utc_time(253'402'300'799), kLastUtcTime);
  EXPECT_EQ(utc_time(253'402'300'800), kLastUtcTime);
  EXPECT_EQ(utc_time(std::numeric_limits<int64_t>::max()), kLastUtcTime);
}

}  // namespace
}  // namespace quire
