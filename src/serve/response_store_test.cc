#include "serve/response_store.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

StoredResponse of(std::string body) { return {std::move(body), "[]", "[]"}; }

TEST(ResponseStore, GivesToWhoPutItThere) {
  ManualClock clock;
  ResponseStore store(ServeLimits{}, clock);
  store.put("resp_1", 7, of("one"));
  ASSERT_NE(store.find("resp_1", 7), nullptr);
  EXPECT_EQ(store.find("resp_1", 7)->body, "one");
  EXPECT_EQ(store.find("resp_1", 8), nullptr);
  EXPECT_FALSE(store.erase("resp_1", 8));
  EXPECT_TRUE(store.erase("resp_1", 7));
  EXPECT_FALSE(store.erase("resp_1", 7));
  EXPECT_EQ(store.bytes(), 0);
}

TEST(ResponseStore, ForgetsByTimeAndByBytes) {
  ManualClock clock;
  ServeLimits limits;
  limits.stored_s = 10;
  limits.stored_bytes = 2000;
  ResponseStore store(limits, clock);
  store.put("a", 0, of(std::string(600, 'a')));
  clock.advance_ns(5'000'000'000);
  store.put("b", 0, of(std::string(600, 'b')));
  EXPECT_NE(store.find("a", 0), nullptr);
  clock.advance_ns(5'000'000'000);
  EXPECT_EQ(store.find("a", 0), nullptr);
  EXPECT_NE(store.find("b", 0), nullptr);
  store.put("c", 0, of(std::string(1300, 'c')));
  EXPECT_EQ(store.find("b", 0), nullptr);
  EXPECT_NE(store.find("c", 0), nullptr);
  store.put("d", 0, of(std::string(5000, 'd')));
  EXPECT_EQ(store.find("d", 0), nullptr);
  EXPECT_NE(store.find("c", 0), nullptr) << "what does not fit drives nothing out";
  EXPECT_LE(store.bytes(), limits.stored_bytes);
}

}  // namespace
}  // namespace quire
