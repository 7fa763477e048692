#include "serve/response_store.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

StoredResponse of(std::string body) { return {std::move(body), "[]", "[]"}; }

TEST(ResponseStore, GivesToWhoPutItThere) {
  ManualClock clock;
  ResponseStore store(ServeLimits{}, clock);
  store.put("resp_1", {7, 1}, of("one"));
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
  limits.stored_bytes = 3000;
  ResponseStore store(limits, clock);
  store.put("a", {}, of(std::string(600, 'a')));
  clock.advance_ns(5'000'000'000);
  store.put("b", {}, of(std::string(600, 'b')));
  EXPECT_NE(store.find("a", 0), nullptr);
  clock.advance_ns(5'000'000'000);
  EXPECT_EQ(store.find("a", 0), nullptr);
  EXPECT_NE(store.find("b", 0), nullptr);
  store.put("c", {}, of(std::string(1900, 'c')));
  EXPECT_EQ(store.find("b", 0), nullptr);
  EXPECT_NE(store.find("c", 0), nullptr);
  store.put("d", {}, of(std::string(5000, 'd')));
  EXPECT_EQ(store.find("d", 0), nullptr);
  EXPECT_NE(store.find("c", 0), nullptr) << "what does not fit drives nothing out";
  EXPECT_LE(store.bytes(), limits.stored_bytes);
}

TEST(ResponseStore, OneTenantsAnswersPushNoOthersOut) {
  ManualClock clock;
  ServeLimits limits;
  limits.stored_bytes = 100'000;
  limits.stored_bytes_each = 60'000;
  ResponseStore store(limits, clock);
  store.put("small", {1, 1}, of(std::string(5'000, 's')));
  for (int i = 0; i < 500; ++i) store.put("big" + std::to_string(i), {2, 2}, of(std::string(2'000, 'b')));
  EXPECT_NE(store.find("small", 1), nullptr);
  EXPECT_EQ(store.find("big0", 2), nullptr) << "one's own oldest go";
  EXPECT_NE(store.find("big499", 2), nullptr);
  EXPECT_LE(store.bytes(), 60'000 + 10'000);
  for (int i = 0; i < 500; ++i) store.put("other" + std::to_string(i), {3, 3}, of(std::string(2'000, 'o')));
  EXPECT_NE(store.find("small", 1), nullptr) << "where all is full whoever keeps most gives";
  EXPECT_NE(store.find("big499", 2), nullptr);
  EXPECT_NE(store.find("other499", 3), nullptr);
  EXPECT_LE(store.bytes(), limits.stored_bytes);
  EXPECT_TRUE(store.erase("small", 1));
  clock.advance_ns(limits.stored_s * 1'000'000'000);
  store.expire();
  EXPECT_EQ(store.bytes(), 0);
}

}  // namespace
}  // namespace quire
