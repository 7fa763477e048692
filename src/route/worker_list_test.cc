// Workers that enter themselves in a directory: by lines as they may be, and through a socket that answers as Redis.
#include "route/worker_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "redis/testing.h"

namespace quire {
namespace {

std::string names_of(const std::vector<WorkerSpec>& workers) {
  std::string out;
  for (const WorkerSpec& worker : workers) out += worker.name() + " ";
  return out;
}

TEST(EnteredWorkers, StayWithoutALineWhileTheyAreWell) {
  EnteredWorkers entered;
  std::string up;
  const auto is_up = [&](const WorkerSpec& worker) { return up.find(worker.name()) != std::string::npos; };
  EXPECT_TRUE(entered.hear("http://b:2\nhttp://a:1", is_up));
  EXPECT_EQ(names_of(entered.workers()), "a:1 b:2 ");
  EXPECT_FALSE(entered.hear("http://a:1\nhttp://b:2", is_up)) << "the order says nothing";
  up = "a:1 b:2";
  EXPECT_FALSE(entered.hear("", is_up)) << "an empty directory is no reason to leave who is well";
  up = "b:2";
  EXPECT_TRUE(entered.hear("", is_up));
  EXPECT_EQ(names_of(entered.workers()), "b:2 ");
  EXPECT_TRUE(entered.hear("http://c:3", is_up));
  EXPECT_EQ(names_of(entered.workers()), "b:2 c:3 ");
  up = "";
  EXPECT_TRUE(entered.hear("", is_up));
  EXPECT_TRUE(entered.workers().empty());
}

TEST(EnteredWorkers, WhatIsNoWorkerIsLeftOutAndManyAreBounded) {
  EnteredWorkers entered;
  const auto never = [](const WorkerSpec&) { return false; };
  const std::string longest = "http://" + std::string(kMostEnteredBytes, 'x') + ":1";
  EXPECT_TRUE(entered.hear("ftp://x:1\n\nhttp://a:1\nhttp://a:1/v1\nhttp://h:99999\n" + longest + "\nhttp://", never));
  EXPECT_EQ(names_of(entered.workers()), "a:1 ");
  std::string many;
  for (size_t i = 0; i < 2 * kMostEntered; ++i) many += "http://h:" + std::to_string(i + 1) + "\n";
  EXPECT_TRUE(entered.hear(many, never));
  EXPECT_EQ(entered.workers().size(), kMostEntered);
  EXPECT_FALSE(entered.hear(many, [](const WorkerSpec&) { return true; })) << "nor do old ones lift the bound";
}

TEST(EnteredWorkers, LiesTakeNeitherThePlaceNorTheNameOfAWorkerThatIsWell) {
  EnteredWorkers entered;
  const auto is_up = [](const WorkerSpec& worker) { return worker.name() == "well:80"; };
  EXPECT_TRUE(entered.hear("http://well:80", is_up));
  std::string lies = "https://well:80\n";
  for (size_t i = 1; i < kMostEntered; ++i) lies += "http://a:" + std::to_string(i) + "\n";
  EXPECT_TRUE(entered.hear(lies, is_up));
  EXPECT_EQ(entered.workers().size(), kMostEntered);
  const auto well = std::ranges::find(entered.workers(), "well:80", &WorkerSpec::name);
  ASSERT_NE(well, entered.workers().end());
  EXPECT_EQ(well->at.tls_name, "") << "another way to the same name is no reason to leave the one that works";
  EXPECT_TRUE(entered.hear("http://b:1\nhttps://well:80", [](const WorkerSpec&) { return false; }));
  EXPECT_EQ(names_of(entered.workers()), "b:1 well:80 ");
  EXPECT_EQ(entered.workers()[1].at.tls_name, "well") << "who is down may be elsewhere now";
}

TEST(EnteredWorkers, OnlyTheFirstLinesAreRead) {
  EnteredWorkers entered;
  const auto never = [](const WorkerSpec&) { return false; };
  std::string lines(kMostEntered - 1, '\n');
  EXPECT_TRUE(entered.hear(lines + "http://a:1\nhttp://b:2", never));
  EXPECT_EQ(names_of(entered.workers()), "a:1 ");
}

TEST(EnteredWorkers, WithoutTlsAreLeftOutWhereOnlyTlsIsWanted) {
  EnteredWorkers entered(true);
  EXPECT_TRUE(entered.hear("http://a:1\nhttps://b:2\nc:3", [](const WorkerSpec&) { return true; }));
  EXPECT_EQ(names_of(entered.workers()), "b:2 ");
}

// The set of the directory; leases do not end by themselves.
class Lines {
 public:
  Lines() : redis_([this](const std::vector<std::string>& words) { return answer(words); }) {}
  RedisOptions options() const { return redis_.options(); }
  std::string lines() {
    const std::lock_guard lock(mu_);
    return lines_;
  }
  void clear() {
    const std::lock_guard lock(mu_);
    lines_.clear();
  }
  std::atomic<bool> refuses{false};
  std::atomic<int> n_refused{0};

 private:
  std::optional<std::string> answer(const std::vector<std::string>& words) {
    const std::lock_guard lock(mu_);
    if (words[0] == "SELECT") return "+OK\r\n";
    if (refuses) {
      ++n_refused;
      return "-NOPERM\r\n";
    }
    if (words[0] == "ZREM") {
      EXPECT_EQ(words[2], lines_);
      lines_.clear();
      return ":1\r\n";
    }
    EXPECT_EQ(words[0] + words[2] + words[3], "EVAL1quire:workers");
    if (words[1].find("ZADD") == std::string::npos)
      return "$" + std::to_string(lines_.size()) + "\r\n" + lines_ + "\r\n";
    EXPECT_EQ(words[5], std::to_string(WorkerEntry::kLeaseMs));
    lines_ = words[4];
    return ":1\r\n";
  }
  std::mutex mu_;
  std::string lines_;
  FakeRedis redis_;  // last: it asks the others
};

TEST(WorkerList, WhoEntersIsFoundAndLeavesWhenItEnds) {
  Lines lines;
  std::mutex mu;
  std::string found;
  std::atomic<bool> up{true};
  const WorkerList list(
      lines.options(), EnteredWorkers(), [&](const WorkerSpec&) { return up.load(); },
      [&](const std::vector<WorkerSpec>& workers) {
        const std::lock_guard lock(mu);
        found = names_of(workers);
      },
      10);
  const auto finds = [&](const std::string& what) {
    return eventually([&] {
      const std::lock_guard lock(mu);
      return found == what;
    });
  };
  {
    const WorkerEntry entry(lines.options(), "http://a:1", 10);
    EXPECT_TRUE(finds("a:1 "));
    lines.clear();  // as FLUSHALL would
    EXPECT_TRUE(eventually([&] { return lines.lines() == "http://a:1"; }));
    lines.refuses = true;
  }
  EXPECT_TRUE(finds("a:1 "));
  lines.clear();
  lines.refuses = false;
  {
    const WorkerEntry again(lines.options(), "http://a:1", 10);
    EXPECT_TRUE(eventually([&] { return lines.lines() == "http://a:1"; }));
  }
  EXPECT_EQ(lines.lines(), "") << "it has left";
  up = false;
  EXPECT_TRUE(finds(""));
}

TEST(WorkerEntry, SaysOnceThatItIsRefusedAndThatItIsEntered) {
  Lines lines;
  lines.refuses = true;
  testing::internal::CaptureStderr();
  {
    const WorkerEntry entry(lines.options(), "http://a:1", 10);
    EXPECT_TRUE(eventually([&] { return lines.n_refused >= 3; }));
    lines.refuses = false;
    EXPECT_TRUE(eventually([&] { return lines.lines() == "http://a:1"; }));
    lines.refuses = true;
    lines.n_refused = 0;
    EXPECT_TRUE(eventually([&] { return lines.n_refused >= 3; }));
    lines.refuses = false;
  }
  const std::string log = testing::internal::GetCapturedStderr();
  std::string said;
  for (size_t at = 0; at < log.size(); at = log.find('\n', at) + 1) {
    const std::string_view line = std::string_view(log).substr(at, log.find('\n', at) - at);
    if (line.ends_with("the directory does not take http://a:1: NOPERM")) said += "refused ";
    if (line.ends_with("routers of the directory are told of http://a:1")) said += "told ";
  }
  EXPECT_TRUE(said == "refused told refused " || said == "refused told refused told ") << log;
}

}  // namespace
}  // namespace quire
