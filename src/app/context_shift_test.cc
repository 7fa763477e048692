#include "app/context_shift.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ContextShift, SaysSinksAndWindow) {
  EXPECT_FALSE(parse_context_shift("")->is_on());
  const Result<ContextShift> shift = parse_context_shift("sinks=4,window=1020");
  ASSERT_TRUE(shift);
  EXPECT_EQ(shift->n_sinks, 4);
  EXPECT_EQ(shift->window, 1020);
  EXPECT_EQ(shift->n_positions(), 1024);
}

TEST(ContextShift, WhatIsWrongIsNamedWithItsValue) {
  const auto error = [](const char* text) { return parse_context_shift(text).error().message; };
  for (const char* text : {"on", "sinks=4", "window=5,sinks=4", "sinks=4,window", "sinks=4;window=5"}) {
    EXPECT_EQ(error(text), "--context-shift must be sinks=S,window=W, got \"" + std::string(text) + "\"");
  }
  EXPECT_EQ(error("sinks=257,window=512"), "--context-shift: sinks must be 0 to 256, got \"257\"");
  EXPECT_EQ(error("sinks=-1,window=512"), "--context-shift: sinks must be 0 to 256, got \"-1\"");
  EXPECT_EQ(error("sinks=4,window=0"), "--context-shift: window must be 1 to 16777216, got \"0\"");
  EXPECT_EQ(error("sinks=4,window=1e3"), "--context-shift: window must be 1 to 16777216, got \"1e3\"");
  EXPECT_EQ(error("sinks=4,window=99999999999"), "--context-shift: window must be 1 to 16777216, got \"99999999999\"");
}

}  // namespace
}  // namespace quire
