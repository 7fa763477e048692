// The directory against sockets that answer as Redis does, or as it should not. The real one: tests/e2e/test_route.py.
#include "route/directory.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "http/resolver_testing.h"
#include "redis/testing.h"

namespace quire {
namespace {

DirectoryOptions at(int port) {
  DirectoryOptions out;
  out.redis.host = "127.0.0.1";
  out.redis.port = port;
  out.deadline_ms = kPatienceMs;
  out.redis.stall_ms = kPatienceMs;
  out.redis.retry_ms = 10;
  return out;
}

// Asks and waits.
uint64_t find(Directory& directory, const Hash128& session) {
  std::atomic<bool> told{false};
  std::atomic<uint64_t> worker{0};
  directory.find(session, [&](uint64_t w) {
    worker = w;
    told = true;
  });
  EXPECT_TRUE(eventually([&] { return told.load(); }));
  return worker;
}

TEST(Directory, SaysWhatWasNoted) {
  std::map<std::string, std::string> values;
  std::vector<std::string> last;
  const FakeRedis redis([&](const std::vector<std::string>& words) -> std::optional<std::string> {
    if (words[0] == "AUTH") return words[1] == "pw" ? "+OK\r\n" : "-WRONGPASS\r\n";
    if (words[0] == "SELECT") return words[1] == "2" ? "+OK\r\n" : "-ERR\r\n";
    if (words[0] == "GET" && !values.contains(words[1])) return "$-1\r\n";
    if (words[0] == "GET") return "$" + std::to_string(values[words[1]].size()) + "\r\n" + values[words[1]] + "\r\n";
    values[words[1]] = words[2];
    EXPECT_EQ(words[3] + words[4], "EX3600");
    return "+OK\r\n";
  });
  DirectoryOptions options = at(redis.port());
  options.redis.password = "pw";
  options.redis.database = 2;
  Metrics metrics;
  Directory directory(options, metrics);
  ASSERT_TRUE(eventually([&] { return directory.up(); }));
  EXPECT_EQ(find(directory, {1, 2}), 0U);
  for (uint64_t i = 1; i <= 500; ++i) directory.note({i, 0}, ~i);
  for (uint64_t i = 1; i <= 500; ++i) EXPECT_EQ(find(directory, {i, 0}), ~i);
}

TEST(Directory, OneThatIsSilentIsNotWaitedForAndGivenUp) {
  std::atomic<bool> silent{true};
  const FakeRedis redis([&](const std::vector<std::string>& words) -> std::optional<std::string> {
    if (words[0] == "SELECT") return "+OK\r\n";
    return silent ? "" : "$1\r\n7\r\n";
  });
  DirectoryOptions options = at(redis.port());
  options.deadline_ms = 5;
  options.redis.stall_ms = 200;
  Metrics metrics;
  Directory directory(options, metrics);
  ASSERT_TRUE(eventually([&] { return directory.up(); }));
  EXPECT_EQ(find(directory, {1, 0}), 0U);
  EXPECT_EQ(metrics.counter("quire_directory_late_total", "").value(), 1U);
  EXPECT_TRUE(eventually([&] { return redis.n_connections() >= 2; }));
  silent = false;
  EXPECT_TRUE(eventually([&] { return find(directory, {1, 0}) == 7; }));
}

TEST(Directory, GarbageRefusalsAndNobodyAreAsIfThereWereNone) {
  const char* const answers[] = {"*3\r\n",        "nonsense\r\n",   "-OOM command not allowed\r\n",
                                 "$3\r\nxyz\r\n", "+OK\r\n+OK\r\n", ":5\r\n"};
  for (const char* answer : answers) {
    const FakeRedis redis([&](const std::vector<std::string>& words) -> std::optional<std::string> {
      return words[0] == "SELECT" ? "+OK\r\n" : answer;
    });
    Metrics metrics;
    Directory directory(at(redis.port()), metrics);
    ASSERT_TRUE(eventually([&] { return directory.up(); }));
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(find(directory, {1, 0}), 0U) << answer;
      directory.note({1, 0}, 3);
    }
  }
  const FakeRedis refuses([](const std::vector<std::string>&) -> std::optional<std::string> { return "-NOAUTH\r\n"; });
  Metrics metrics;
  Directory refused(at(refuses.port()), metrics);
  EXPECT_TRUE(eventually([&] { return refuses.n_connections() >= 3; }));
  EXPECT_FALSE(refused.up());
  EXPECT_EQ(find(refused, {1, 0}), 0U);
  int port = 0;
  {
    const RawListener gone;
    port = gone.port();
  }
  Directory nobody(at(port), metrics);
  EXPECT_EQ(find(nobody, {1, 0}), 0U);
  nobody.note({1, 0}, 1);
}

TEST(Directory, OneWhoseHostIsNotFoundYetEndsAtOnceAndIsReachedLater) {
  Metrics metrics;
  SlowResolver::answers = false;
  const FakeRedis redis([](const std::vector<std::string>&) -> std::optional<std::string> { return "+OK\r\n"; });
  DirectoryOptions options = at(redis.port());
  options.redis.host = "slow.test";
  const int64_t start = test_now_ms();
  {
    Directory directory(options, metrics);
    EXPECT_TRUE(eventually([] { return SlowResolver::n_inside.load() == 1; }));
    EXPECT_EQ(find(directory, {1, 0}), 0U);
  }
  EXPECT_LT(test_now_ms() - start, 2'000);
  SlowResolver::answers = true;
  Directory directory(options, metrics);
  EXPECT_TRUE(eventually([&] { return directory.up(); }));
  EXPECT_TRUE(eventually([] { return SlowResolver::n_inside.load() == 0; }));
}

TEST(Directory, EveryQuestionIsAnsweredOnceHoweverItEnds) {
  std::atomic<int> n_told{0};
  constexpr int kQuestions = 2000;
  {
    std::atomic<int> n{0};
    const FakeRedis redis([&](const std::vector<std::string>& words) -> std::optional<std::string> {
      if (words[0] == "SELECT") return "+OK\r\n";
      if (++n % 97 == 0) return std::nullopt;  // it dies, again and again
      return "$-1\r\n";
    });
    DirectoryOptions options = at(redis.port());
    options.redis.most_pending = 50;
    Metrics metrics;
    Directory directory(options, metrics);
    ASSERT_TRUE(eventually([&] { return directory.up(); }));
    for (uint64_t i = 0; i < kQuestions; ++i) directory.find({i, 0}, [&](uint64_t) { ++n_told; });
  }
  EXPECT_EQ(n_told.load(), kQuestions);
}

}  // namespace
}  // namespace quire
