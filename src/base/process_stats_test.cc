#include "base/process_stats.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace quire {
namespace {

TEST(ProcessStats, AreThoseOfThisProcess) {
  Metrics m;
  refresh_process_stats(m);
  const auto value = [&](const char* name) { return m.gauge(name, "").value(); };
  const double n_open = value("process_open_fds"), resident = value("process_resident_memory_bytes");
  EXPECT_GE(n_open, 3);
  EXPECT_GT(resident, 1 << 20);
  EXPECT_GT(value("process_virtual_memory_bytes"), resident);
  EXPECT_GE(value("process_max_fds"), n_open);
  EXPECT_GT(value("process_start_time_seconds"), 1.7e9);
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  refresh_process_stats(m);
  EXPECT_EQ(value("process_open_fds"), n_open + 1);
  ::close(fd);
  EXPECT_NE(m.expose().find("# TYPE process_cpu_seconds_total counter"), std::string::npos);
}

TEST(ProcessStats, WhatIsInUseAndWhatWasFreedIsTold) {
  Metrics m;
  const auto heap = [&](const char* state) {
    refresh_process_stats(m);
    return m.gauge("quire_heap_bytes", "", {{"state", state}}).value();
  };
  constexpr int kBlocks = 10'000, kBytes = 600;
  const double used = heap("used");
  std::vector<std::unique_ptr<char[]>> blocks;
  blocks.reserve(kBlocks);
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(std::make_unique<char[]>(kBytes));
  if (heap("used") < used + kBlocks * kBytes) GTEST_SKIP() << "another allocator";
  const double full = heap("used"), free = heap("free");
  const auto last = std::move(blocks.back());  // what lies below it stays with the allocator
  blocks.clear();
  EXPECT_LT(heap("used"), full - (kBlocks - 1000) * kBytes);
  EXPECT_GT(heap("free"), free + (kBlocks - 1000) * kBytes);
}

}  // namespace
}  // namespace quire
