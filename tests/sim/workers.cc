#include "tests/sim/workers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "base/check.h"

namespace quire::sim {
namespace {

constexpr unsigned kSecondsPerRun = 120;  // far more than the longest takes under a sanitizer

// What a worker leaves for its parent, in memory that both see.
struct Shared {
  std::atomic<uint64_t> seed;  // being run
  std::atomic<bool> stop;
  bool failed;
  char failure[1024];
  Counts counts;
};

Shared* make_shared_memory(int n) {
  void* memory =
      mmap(nullptr, sizeof(Shared) * static_cast<size_t>(n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  QR_CHECK(memory != MAP_FAILED);
  for (int i = 0; i < n; ++i) new (static_cast<Shared*>(memory) + i) Shared{};
  return static_cast<Shared*>(memory);
}

struct Child {
  pid_t pid = 0;
  int errors = -1;  // its stderr, a file without a name
};

Child start(const std::function<void()>& body) {
  Child child;
  std::FILE* file = std::tmpfile();
  QR_CHECK(file != nullptr);
  child.errors = dup(fileno(file));
  std::fclose(file);
  std::fflush(nullptr);
  child.pid = fork();
  QR_CHECK(child.pid >= 0);
  if (child.pid > 0) return child;
  dup2(child.errors, 2);
  body();
  _exit(0);
}

std::string last_words(int file) {
  std::string out;
  const off_t size = lseek(file, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - 600);
  out.resize(static_cast<size_t>(size - from));
  const ssize_t n = pread(file, out.data(), out.size(), from);
  out.resize(static_cast<size_t>(std::max<ssize_t>(0, n)));
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// How the child ended; empty when it ended by itself.
std::string wait_for(const Child& child) {
  int status = 0;
  QR_CHECK(waitpid(child.pid, &status, 0) == child.pid);
  std::string out;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    out = signal == SIGALRM ? "no end after " + std::to_string(kSecondsPerRun) + " s"
                            : "signal " + std::to_string(signal);
  } else if (WEXITSTATUS(status) != 0) {
    out = "exit code " + std::to_string(WEXITSTATUS(status));
  }
  if (!out.empty()) out += ": " + last_words(child.errors);
  close(child.errors);
  return out;
}

void keep(Shared& out, const std::string& failure) {
  out.failed = true;
  std::strncpy(out.failure, failure.c_str(), sizeof out.failure - 1);
}

struct Seeds {
  uint64_t first, n;
  int n_workers;
  Script (*script_of)(uint64_t);
};

void work(Shared* all, int me, const Seeds& seeds) {
  Shared& mine = all[me];
  for (auto i = static_cast<uint64_t>(me); i < seeds.n && !all[0].stop; i += static_cast<uint64_t>(seeds.n_workers)) {
    mine.seed = seeds.first + i;
    alarm(kSecondsPerRun);
    const Outcome out = run(seeds.script_of(mine.seed));
    if (!out.failure.empty()) {
      keep(mine, out.failure);
      return;
    }
    mine.counts.add(out.counts);
  }
}

}  // namespace

Report run_seeds(uint64_t first, uint64_t n, int n_workers, Script (*script_of)(uint64_t)) {
  n_workers = static_cast<int>(std::max<uint64_t>(1, std::min<uint64_t>(n, static_cast<uint64_t>(n_workers))));
  Shared* all = make_shared_memory(n_workers);
  std::vector<Child> children;
  for (int w = 0; w < n_workers; ++w) {
    children.push_back(start([=] {
      work(all, w, {first, n, n_workers, script_of});
      if (all[w].failed) all[0].stop = true;
    }));
  }
  Report report;
  for (int w = 0; w < n_workers; ++w) {
    const std::string end = wait_for(children[static_cast<size_t>(w)]);
    const Shared& one = all[w];
    report.counts.add(one.counts);
    if (!one.failed && end.empty()) continue;
    all[0].stop = true;
    if (report.failed && report.seed < one.seed) continue;
    report.failed = true;
    report.seed = one.seed;
    report.failure = one.failed ? one.failure : end;
  }
  munmap(all, sizeof(Shared) * static_cast<size_t>(n_workers));
  return report;
}

std::string failure_of(const Script& script) {
  Shared* shared = make_shared_memory(1);
  const Child child = start([&] {
    alarm(kSecondsPerRun);
    const Outcome out = run(script);
    if (!out.failure.empty()) keep(*shared, out.failure);
  });
  const std::string end = wait_for(child);
  const std::string failure = shared->failed ? shared->failure : end;
  munmap(shared, sizeof(Shared));
  return failure;
}

}  // namespace quire::sim
