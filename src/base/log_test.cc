#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/check.h"

namespace quire {
namespace {

std::string logged(LogLevel level, std::string_view message) {
  testing::internal::CaptureStderr();
  log(level, message);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, WritesOneLineWithTimeAndLevel) {
  EXPECT_THAT(logged(LogLevel::warn, "block pool full"),
              testing::MatchesRegex("....-..-..T..:..:......Z warning block pool full\n"));
}

TEST(Log, EscapesWhatCouldForgeALine) {
  EXPECT_THAT(logged(LogLevel::error, "a\nb\rc\x1b[2Jd\x7f"), testing::EndsWith(" error a\\nb\\x0dc\\x1b[2Jd\\x7f\n"));
  EXPECT_THAT(logged(LogLevel::error,
                     "\xC2\x9B"
                     "1m \xE2\x80\xA8 \xff \xC3"),
              testing::EndsWith(" error \\xc2\\x9b1m \\xe2\\x80\\xa8 \\xff \\xc3\n"));
  EXPECT_THAT(logged(LogLevel::error, "{} {0} %s na\xC3\xAFve"), testing::EndsWith(" error {} {0} %s na\xC3\xAFve\n"));
}

TEST(Log, LevelHidesWhatIsBelow) {
  set_log_level(LogLevel::error);
  EXPECT_EQ(logged(LogLevel::warn, "quiet"), "");
  set_log_level(LogLevel::info);
  EXPECT_THAT(logged(LogLevel::info, "loud"), testing::HasSubstr("loud"));
}

TEST(Log, AThreadOfItsOwnLosesNothingAtTheEnd) {
  testing::internal::CaptureStderr();
  {
    const LogThread thread;
    for (int i = 0; i < 1000; ++i) log_info("line " + std::to_string(i));
    log_line("{\"as\": \"it is\"}");
  }
  const std::string got = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(got.begin(), got.end(), '\n'), 1001);
  EXPECT_THAT(got, testing::EndsWith("info line 999\n{\"as\": \"it is\"}\n"));
}

TEST(LogDeathTest, ACheckSaysItsLastWordsBehindWhatIsQueued) {
  const auto die = [] {
    const LogThread thread;
    log_info("before");
    QR_CHECK(1 + 1 == 3, "numbers");
  };
  EXPECT_DEATH(die(), "info before\n.*log_test.cc:[0-9]+: check failed: 1 . 1 == 3 numbers");
}

}  // namespace
}  // namespace quire
