#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace quire
