// Children of the shell's: what is told of them, and that none is left.
#include "base/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace quire {
namespace {

ChildSpec shell(std::string script, std::string input = "") {
  return {"/bin/sh", {"sh", "-c", std::move(script)}, {"PATH=/usr/bin:/bin", "KNOWN=yes"}, std::move(input)};
}

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::vector<std::string> all_lines(PipeLines& pipe) {
  std::vector<std::string> out;
  eventually([&] {
    pipe.take([&](std::string_view line) { out.emplace_back(line); });
    return pipe.fd() < 0;
  });
  return out;
}

// Z: it has ended and nobody asked how.
bool runs(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return false;
  char state = 'Z';
  const int n = std::fscanf(file, "%*d (%*[^)]) %c", &state);
  std::fclose(file);
  return n == 1 && state != 'Z' && state != 'X';
}

TEST(ChildProcess, TellsItsLinesAndHowItEnded) {
  auto child = ChildProcess::start(shell("echo $KNOWN; echo oops >&2; printf rest; exit 3"));
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(all_lines((*child)->out()), (std::vector<std::string>{"yes", "rest"}));
  EXPECT_EQ(all_lines((*child)->err()), std::vector<std::string>{"oops"});
  EXPECT_TRUE(eventually([&] { return (*child)->ended().has_value(); }));
  EXPECT_EQ(*(*child)->ended(), "exit code 3");
  (*child)->signal(SIGTERM);  // to nobody
}

TEST(ChildProcess, ALineIsCutAndTheNextIsWhole) {
  auto child = ChildProcess::start(shell("head -c 9999 /dev/zero | tr '\\0' x; echo; echo next"));
  ASSERT_TRUE(child);
  const std::vector<std::string> lines = all_lines((*child)->out());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], std::string(PipeLines::kMostBytes, 'x'));
  EXPECT_EQ(lines[1], "next");
}

TEST(ChildProcess, ItsInputCanBeReadAgainAndEnds) {
  auto child = ChildProcess::start(shell("cat /dev/stdin; cat", "one\n"));
  ASSERT_TRUE(child);
  EXPECT_EQ(all_lines((*child)->out()), (std::vector<std::string>{"one", "one"}));
  auto none = ChildProcess::start(shell("cat; echo end"));
  ASSERT_TRUE(none);
  EXPECT_EQ(all_lines((*none)->out()), std::vector<std::string>{"end"});
}

TEST(ChildProcess, AProgramThatIsNotThereIsAnErrorThatNamesIt) {
  const auto child = ChildProcess::start({"/no/such/program", {"x"}, {}, ""});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().message, "/no/such/program: No such file or directory");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // nothing is left to be waited for
}

TEST(ChildProcess, SignalsReachItWhateverIsBlockedHere) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  auto child = ChildProcess::start(shell("trap 'echo got; exit 0' TERM; echo ready; while :; do sleep 0.01; done"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child);
  std::vector<std::string> lines;
  const auto saw = [&](const char* line) {
    return eventually([&] {
      (*child)->out().take([&](std::string_view text) { lines.emplace_back(text); });
      return !lines.empty() && lines.back() == line;
    });
  };
  EXPECT_TRUE(saw("ready"));
  EXPECT_EQ(::getpgid((*child)->pid()), (*child)->pid());
  (*child)->signal(SIGTERM);
  EXPECT_TRUE(saw("got"));
  EXPECT_TRUE(eventually([&] { return (*child)->ended().has_value(); }));
  EXPECT_EQ(*(*child)->ended(), "exit code 0");
}

TEST(ChildProcess, DestroyingKillsAndWaits) {
  pid_t pid = 0;
  {
    auto child = ChildProcess::start(shell("trap '' TERM; exec sleep 1000"));
    ASSERT_TRUE(child);
    pid = (*child)->pid();
    EXPECT_FALSE((*child)->ended());
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// The one thing that nothing can be done about afterwards: we are killed without a word.
TEST(ChildProcess, AChildEndsWithTheProcessThatStartedIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto child = ChildProcess::start(shell("exec sleep 1000"));
    const pid_t pid = child ? (*child)->pid() : 0;
    (void)!::write(ends[1], &pid, sizeof pid);
    ::pause();
    ::_exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(::read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_GT(child, 0);
  EXPECT_TRUE(runs(child));
  ::kill(owner, SIGKILL);
  ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);
  EXPECT_TRUE(eventually([&] { return !runs(child); }));
}

TEST(ChildProcess, VariablesCanBeLeftOut) {
  ::setenv("QUIRE_TEST_CHILD_VARIABLE", "1", 1);
  for (const std::string& variable : environment_without("QUIRE_")) EXPECT_FALSE(variable.starts_with("QUIRE_"));
  const std::vector<std::string> all = environment_without("\x01");
  EXPECT_NE(std::find(all.begin(), all.end(), "QUIRE_TEST_CHILD_VARIABLE=1"), all.end());
  ::unsetenv("QUIRE_TEST_CHILD_VARIABLE");
}

}  // namespace
}  // namespace quire
