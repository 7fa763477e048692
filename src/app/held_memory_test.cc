// The table of what clients can make the server hold is whole: a row without a bound over the whole server, or without
// a test that fills it, fails here.
#include "base/held_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace quire {
namespace {

// Each is a promise that is broken: bound what is held, then take its line away.
const std::set<std::string_view> kUnbounded = {};

TEST(HeldMemory, EveryRowIsBoundedOverTheWholeServer) {
  std::set<std::string_view> unbounded;
  for (const std::string& room : Registry<HeldRows>::get().names()) {
    for (const HeldRow& row : (*Registry<HeldRows>::get().find(room))()) {
      EXPECT_FALSE(row.what.empty()) << room;
      if (row.in_all.from.empty()) {
        unbounded.insert(row.what);
        continue;
      }
      EXPECT_FALSE(row.test.empty()) << row.what;
      EXPECT_GE(row.in_all.bytes, row.of_request.bytes) << row.what;
      EXPECT_GE(row.in_all.bytes, row.of_connection.bytes) << row.what;
      EXPECT_GE(row.in_all.bytes, row.of_key.bytes) << row.what;
    }
  }
  EXPECT_EQ(unbounded, kUnbounded);
}

TEST(HeldMemory, EveryRoomThatHoldsSomethingHasRows) {
  EXPECT_THAT(Registry<HeldRows>::get().names(), testing::IsSupersetOf({"base", "engine", "http", "serve"}));
}

}  // namespace
}  // namespace quire
