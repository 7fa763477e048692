// Commands and replies, however they are cut, and addresses. The client itself: redis_tls_test.cc,
// route/directory_test.cc, kv/tiers/remote_tier_test.cc.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "redis/redis_client.h"

namespace quire {
namespace {

std::vector<std::string> read_all(std::string_view bytes, size_t step, bool* failed = nullptr) {
  RedisReader reader;
  std::vector<std::string> out;
  while (!bytes.empty() && reader.feed(bytes.substr(0, step))) {
    bytes.remove_prefix(std::min(step, bytes.size()));
    while (const auto reply = reader.next()) out.push_back(std::to_string(static_cast<int>(reply->kind)) + reply->text);
    if (reader.failed()) break;
  }
  if (failed != nullptr) *failed = reader.failed();
  return out;
}

TEST(RedisWire, CommandsAndRepliesHoweverTheyAreCut) {
  const std::vector<std::string> words{"SET", "k\r\n", std::string("\0x", 2)};
  EXPECT_EQ(redis_command(words), std::string("*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$2\r\n\0x\r\n", 30));
  const std::string replies = "+OK\r\n-ERR no\r\n:12\r\n$3\r\na\r\n\r\n$-1\r\n$0\r\n\r\n";
  const std::vector<std::string> expected{"0OK", "1ERR no", "212", "3a\r\n", "4", "3"};
  for (size_t step = 1; step <= replies.size(); ++step) EXPECT_EQ(read_all(replies, step), expected) << step;
}

TEST(RedisWire, WhatIsNestedLargeOrNoReplyFails) {
  const std::string cases[] = {"*1\r\n:1\r\n", "*1000000000\r\n", "HTTP/1.1 200 OK\r\n",
                               "$70000\r\n" + std::string(70'000, 'x'), std::string(70'000, '+')};
  for (const std::string& bytes : cases)
    for (const size_t step : {size_t{1}, size_t{4096}}) {
      bool failed = false;
      read_all(bytes, step, &failed);
      EXPECT_TRUE(failed) << bytes.substr(0, 20);
    }
}

TEST(RedisWire, WhateverComesTheCutsDoNotMatter) {
  const std::string seed = "+OK\r\n-ERR no\r\n:12\r\n$3\r\nabc\r\n$-1\r\n";
  constexpr std::string_view kPieces = "+-:$*0129\r\n\0x";
  Rng rng(9);
  const auto below = [&](size_t n) { return static_cast<size_t>(rng.between(0, static_cast<int64_t>(n) - 1)); };
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = seed;
    for (int64_t k = rng.between(1, 3); k > 0; --k) bytes[below(bytes.size())] = kPieces[below(kPieces.size())];
    bool whole = false, cut = false;
    const auto a = read_all(bytes, bytes.size(), &whole), b = read_all(bytes, 1 + below(5), &cut);
    ASSERT_EQ(a, b) << bytes;
    ASSERT_EQ(whole, cut) << bytes;
  }
}

TEST(RedisUrl, IsReadAndBadOnesAreNamedWithoutThePassword) {
  const auto full = parse_redis_url("redis://:p@ss:w@h:99/3", "a directory");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->host, "h");
  EXPECT_EQ(full->port, 99);
  EXPECT_EQ(full->password, "p@ss:w");
  EXPECT_EQ(full->database, 3);
  EXPECT_EQ(parse_redis_url("redis://[::1]:7", "a directory")->host, "::1");
  EXPECT_EQ(parse_redis_url("redis://h", "a directory")->port, 6379);
  EXPECT_FALSE(full->over_tls);
  EXPECT_EQ(full->user, "");
  const auto named = parse_redis_url("rediss://me:p@ss@h:99", "a directory");
  ASSERT_TRUE(named);
  EXPECT_TRUE(named->over_tls);
  EXPECT_EQ(named->user, "me");
  EXPECT_EQ(named->password, "p@ss");
  for (const char* url : {"h:1", "redisss://:secret@h", "redis://", "rediss://", "redis://:secret@h:0",
                          "redis://:secret@h/x", "redis://secret@h:1", "rediss://:secret", "redis://no host",
                          "redis://user:secret", "rediss://user:secret/0", "user:secret", "redis://user:1/secret"}) {
    const auto bad = parse_redis_url(url, "a directory");
    ASSERT_FALSE(bad) << url;
    EXPECT_EQ(bad.error().message.find("secret"), std::string::npos) << bad.error().message;
    EXPECT_TRUE(bad.error().message.starts_with("a directory is redis://")) << bad.error().message;
  }
  for (const std::string url : {"redis://h:0", "redis://h/x", "h:1"})
    EXPECT_TRUE(parse_redis_url(url, "a directory").error().message.ends_with("got \"" + url + "\"")) << url;
}

}  // namespace
}  // namespace quire
