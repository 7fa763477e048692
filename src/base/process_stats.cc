#include "base/process_stats.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>

namespace quire {
namespace {

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

// Seconds since 1970, as nearly as this was loaded when the process began.
const double kStartedS = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

// Pages: all, resident. False where the system has no such file.
bool read_pages(long& all, long& resident) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "re"), &std::fclose);
  return file != nullptr && std::fscanf(file.get(), "%ld %ld", &all, &resident) == 2;
}

// -1 where they cannot be listed. "." and ".." and the list's own are none of them.
int n_open_files() {
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir("/proc/self/fd"), &::closedir);
  if (list == nullptr) return -1;
  int n = -3;
  while (::readdir(list.get()) != nullptr) ++n;
  return n;
}

}  // namespace

int64_t resident_bytes() {
  long all = 0, resident = 0;
  return read_pages(all, resident) ? int64_t{resident} * ::sysconf(_SC_PAGESIZE) : 0;
}

void refresh_process_stats(Metrics& metrics) {
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0)
    metrics.total("process_cpu_seconds_total", "Processor time of the process, in seconds.")
        .set(seconds(used.ru_utime) + seconds(used.ru_stime));
  metrics.gauge("process_start_time_seconds", "When the process began, in seconds since 1970.").set(kStartedS);
  long all = 0, resident = 0;
  if (const long page = ::sysconf(_SC_PAGESIZE); read_pages(all, resident)) {
    metrics.gauge("process_virtual_memory_bytes", "Addresses that the process has.")
        .set(static_cast<double>(all) * static_cast<double>(page));
    metrics.gauge("process_resident_memory_bytes", "Memory that the process takes.")
        .set(static_cast<double>(resident) * static_cast<double>(page));
  }
  const struct mallinfo2 heap = ::mallinfo2();
  constexpr std::string_view kHeap = "Of the C library's allocator, by state: in use, and free.";
  metrics.gauge("quire_heap_bytes", kHeap, {{"state", "used"}}).set(static_cast<double>(heap.uordblks + heap.hblkhd));
  metrics.gauge("quire_heap_bytes", kHeap, {{"state", "free"}}).set(static_cast<double>(heap.fordblks));
  if (const int n = n_open_files(); n >= 0)
    metrics.gauge("process_open_fds", "Files and sockets that are open.").set(n);
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) == 0)
    metrics.gauge("process_max_fds", "Files and sockets that may be open.").set(static_cast<double>(most.rlim_cur));
}

}  // namespace quire
