#include "route/keep_alive.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(KeepAlive, TimesAsTheyAreWritten) {
  const struct {
    const char* text;
    int64_t ms;
  } cases[] = {{"5m", 300'000},
               {"1h30m", 5'400'000},
               {"1.5s", 1'500},
               {"250ms", 250},
               {"0", 0},
               {"0s", 0},
               {"-0s", 0},
               {"300", 300'000},
               {"-1", kKeepForever},
               {"-5m", kKeepForever},
               {"+2s", 2'000},
               {"1us", 1},
               {"876000h", kMostKeepAliveMs}};
  for (const auto& c : cases) {
    const auto got = parse_keep_alive(c.text);
    ASSERT_TRUE(got) << c.text << ": " << got.error().message;
    EXPECT_EQ(*got, c.ms) << c.text;
  }
}

TEST(KeepAlive, WhatIsNoTimeIsRefusedWithItsValue) {
  for (const char* text :
       {"", "-", "abc", "5 m", "5x", "m", "5m3", "--5", "5m-3s", "1e3s", "inf", "nan", "0x10", "5mm"}) {
    const auto got = parse_keep_alive(text);
    ASSERT_FALSE(got) << text;
    EXPECT_EQ(got.error().code, Code::invalid);
    EXPECT_NE(got.error().message.find(std::string("\"") + text + "\""), std::string::npos) << got.error().message;
  }
  for (const char* text : {"876001h", "99999999999999999999999", "99999999999999h"}) {
    const auto got = parse_keep_alive(text);
    ASSERT_FALSE(got) << text;
    EXPECT_NE(got.error().message.find("100 years"), std::string::npos);
  }
}

TEST(KeepAlive, ValuesOfJson) {
  EXPECT_EQ(*parse_keep_alive_json("\"10m\""), 600'000);
  EXPECT_EQ(*parse_keep_alive_json("0"), 0);
  EXPECT_EQ(*parse_keep_alive_json("2.5"), 2'500);
  EXPECT_EQ(*parse_keep_alive_json("-1"), kKeepForever);
  EXPECT_EQ(*parse_keep_alive_json("-0.5"), kKeepForever);
  for (const char* value : {"true", "[]", "{}", "\"abc\"", "1e300", "", "5m", "null"})
    EXPECT_FALSE(parse_keep_alive_json(value)) << value;
}

}  // namespace
}  // namespace quire
