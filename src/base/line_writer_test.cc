#include "base/line_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

namespace quire {
namespace {

std::string missing(uint64_t n) { return std::to_string(n) + " missing"; }

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    close_reader();
    if (ends[1] >= 0) ::close(ends[1]);
  }
  void close_reader() {
    if (ends[0] >= 0) ::close(ends[0]);
    ends[0] = -1;
  }
  int ends[2] = {-1, -1};
};

// Reads until the text ends with `last`.
std::string read_until(int fd, const std::string& last) {
  std::string out;
  char part[4096];
  while (!out.ends_with(last)) {
    const ssize_t n = ::read(fd, part, sizeof part);
    if (n <= 0) break;
    out.append(part, static_cast<size_t>(n));
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    out.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return out;
}

TEST(LineWriter, WritesEachThreadsLinesWholeAndInOrder) {
  Pipe pipe;
  std::string got;
  std::thread reader([&] {
    char part[4096];
    for (ssize_t n; (n = ::read(pipe.ends[0], part, sizeof part)) > 0;) got.append(part, static_cast<size_t>(n));
  });
  {
    LineWriter writer(pipe.ends[1], {.patience_ms = 60'000}, missing);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&writer, t] {
        for (int i = 0; i < 500; ++i) writer.write(std::to_string(t) + " " + std::to_string(i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(writer.n_dropped(), 0u);
  }
  ::close(pipe.ends[1]);
  pipe.ends[1] = -1;
  reader.join();
  int next[4] = {};
  for (const std::string& line : lines_of(got)) {
    const auto t = static_cast<size_t>(line[0] - '0');
    ASSERT_LT(t, 4u) << line;
    EXPECT_EQ(line.substr(2), std::to_string(next[t]++));
  }
  for (const int n : next) EXPECT_EQ(n, 500);
}

TEST(LineWriter, NobodyWaitsForAPipeThatNobodyReadsAndTheGapIsSaidWhereItIs) {
  constexpr int kLines = 200'000;  // far more than pipe and queue hold
  Pipe pipe;
  ::fcntl(pipe.ends[1], F_SETPIPE_SZ, 4096);
  LineWriter writer(pipe.ends[1], {.bytes = 16'384, .lines = 2000, .patience_ms = 60'000}, missing);
  for (int i = 0; i < kLines; ++i) writer.write(std::to_string(i));
  EXPECT_FALSE(writer.flush(0));
  const uint64_t n_dropped = writer.n_dropped();
  EXPECT_GT(n_dropped, 100'000u);
  std::string got = read_until(pipe.ends[0], " missing\n");
  EXPECT_TRUE(writer.flush(60'000));
  writer.write("after");
  got += read_until(pipe.ends[0], "after\n");
  uint64_t next = 0, n_told = 0;
  for (const std::string& line : lines_of(got)) {
    if (line == "after") continue;
    if (!line.ends_with(" missing")) {
      EXPECT_EQ(line, std::to_string(next++));
      continue;
    }
    n_told += std::stoull(line);
    next += std::stoull(line);
  }
  EXPECT_EQ(next, static_cast<uint64_t>(kLines));
  EXPECT_EQ(n_told, writer.n_dropped());
}

TEST(LineWriter, HoldsNoMoreThanItsLimits) {
  Pipe pipe;
  ::fcntl(pipe.ends[1], F_SETPIPE_SZ, 4096);
  const std::string line(99, 'x');
  {
    LineWriter by_bytes(pipe.ends[1], {.bytes = 20'000, .lines = 1'000'000, .patience_ms = 60'000}, missing);
    for (int i = 0; i < 1000; ++i) by_bytes.write(line);
    EXPECT_GE(by_bytes.n_dropped(), 1000u - (20'000u + 4096u) / 100u - 1u);
    by_bytes.write(std::string(20'000, 'y'));  // never fits: it and its end are more than all
    pipe.close_reader();
  }
  Pipe other;
  ::fcntl(other.ends[1], F_SETPIPE_SZ, 4096);
  LineWriter by_lines(other.ends[1], {.bytes = 1 << 20, .lines = 50, .patience_ms = 60'000}, missing);
  for (int i = 0; i < 1000; ++i) by_lines.write(line);
  EXPECT_GE(by_lines.n_dropped(), 1000u - 4096u / 100u - 2 * 50u - 1u);
  other.close_reader();
}

TEST(LineWriter, AReaderThatClosesCostsItsLinesOnly) {
  Pipe pipe;
  pipe.close_reader();
  LineWriter writer(pipe.ends[1], {}, missing);
  for (int i = 0; i < 10; ++i) writer.write("nobody gets this");
  EXPECT_TRUE(writer.flush(60'000));
  EXPECT_EQ(writer.n_dropped(), 10u);
}

TEST(LineWriter, AReaderThatComesBackIsToldWhatItMissed) {
  const std::string path = testing::TempDir() + "quire_line_writer_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int first = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  {
    LineWriter writer(fd, {.patience_ms = 60'000}, missing);
    ::close(first);
    writer.write("lost");
    writer.write("lost");
    ASSERT_TRUE(writer.flush(60'000));
    const int second = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
    writer.write("heard");
    ASSERT_TRUE(writer.flush(60'000));
    EXPECT_EQ(read_until(second, "heard\n"), "2 missing\nheard\n");
    ::close(second);
  }
  ::close(fd);
  std::filesystem::remove(path);
}

TEST(LineWriter, TheEndGivesUpOnAReaderThatIsStuck) {
  Pipe pipe;
  {
    LineWriter writer(pipe.ends[1], {.patience_ms = 10}, missing);
    for (int i = 0; i < 100'000; ++i) writer.write("nobody reads this");
    EXPECT_FALSE(writer.flush(0));
  }  // comes back
  pipe.close_reader();  // and the thread that was left behind ends
  pipe.ends[1] = -1;    // which may still use it
}

TEST(WriteWithin, GivesUpWhereThereIsNoRoom) {
  Pipe pipe;
  const std::string text(1 << 20, 'x');
  const size_t n = write_within(pipe.ends[1], text, 10);
  EXPECT_GT(n, 0u);
  EXPECT_LT(n, text.size());
}

}  // namespace
}  // namespace quire
