// The directory against sockets that answer as Redis does, or as it should not. The real one: tests/e2e/test_route.py.
#include "route/directory.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/rng.h"
#include "http/resolver_testing.h"
#include "http/testing.h"

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

TEST(DirectoryUrl, IsReadAndBadOnesAreNamedWithoutThePassword) {
  const auto full = parse_directory("redis://:p@ss:w@h:99/3");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->host, "h");
  EXPECT_EQ(full->port, 99);
  EXPECT_EQ(full->password, "p@ss:w");
  EXPECT_EQ(full->database, 3);
  EXPECT_EQ(parse_directory("redis://[::1]:7")->host, "::1");
  EXPECT_EQ(parse_directory("redis://h")->port, 6379);
  for (const char* url : {"h:1", "rediss://:secret@h", "redis://", "redis://:secret@h:0", "redis://:secret@h/x",
                          "redis://user:secret@h"}) {
    const auto bad = parse_directory(url);
    ASSERT_FALSE(bad) << url;
    EXPECT_EQ(bad.error().message.find("secret"), std::string::npos) << bad.error().message;
  }
}

// One connection after the other; what it says to each command is the test's.
class FakeRedis {
 public:
  using Answer = std::function<std::optional<std::string>(const std::vector<std::string>& words)>;
  explicit FakeRedis(Answer answer) : answer_(std::move(answer)), thread_([this] { run(); }) {}
  ~FakeRedis() {
    ends_ = true;
    RawClient wake(listener_.port());
    thread_.join();
  }
  int port() const { return listener_.port(); }
  int n_connections() const { return n_connections_; }

 private:
  void run() {
    while (!ends_) {
      const int fd = listener_.accept();
      if (fd < 0) return;
      ++n_connections_;
      serve(fd);
      ::close(fd);
    }
  }
  void serve(int fd) {
    std::string in;
    char buffer[4096];
    while (!ends_) {
      pollfd p{fd, POLLIN, 0};
      if (::poll(&p, 1, 10) == 0) continue;
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
      if (n <= 0) return;
      in.append(buffer, static_cast<size_t>(n));
      for (auto words = take(in); !words.empty(); words = take(in)) {
        const auto said = answer_(words);
        if (!said) return;  // closes
        say_to(fd, *said);
      }
    }
  }
  // One command off the front of `in`; empty: none is whole.
  static std::vector<std::string> take(std::string& in) {
    std::vector<std::string> words;
    size_t at = in.find("\r\n");
    if (at == std::string::npos) return {};
    const int n = std::atoi(in.c_str() + 1);
    at += 2;
    for (int i = 0; i < n; ++i) {
      const size_t end = in.find("\r\n", at);
      if (end == std::string::npos) return {};
      const auto size = static_cast<size_t>(std::atoi(in.c_str() + at + 1));
      if (in.size() < end + 2 + size + 2) return {};
      words.push_back(in.substr(end + 2, size));
      at = end + 2 + size + 2;
    }
    in.erase(0, at);
    return words;
  }

  const Answer answer_;
  RawListener listener_;
  std::atomic<bool> ends_{false};
  std::atomic<int> n_connections_{0};
  std::thread thread_;
};

DirectoryOptions at(int port) {
  DirectoryOptions out;
  out.host = "127.0.0.1";
  out.port = port;
  out.deadline_ms = kPatienceMs;
  out.stall_ms = kPatienceMs;
  out.retry_ms = 10;
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
  options.password = "pw";
  options.database = 2;
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
  options.stall_ms = 200;
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
  options.host = "slow.test";
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
    options.most_pending = 50;
    Metrics metrics;
    Directory directory(options, metrics);
    ASSERT_TRUE(eventually([&] { return directory.up(); }));
    for (uint64_t i = 0; i < kQuestions; ++i) directory.find({i, 0}, [&](uint64_t) { ++n_told; });
  }
  EXPECT_EQ(n_told.load(), kQuestions);
}

}  // namespace
}  // namespace quire
