// Linux only: /proc/meminfo and the memory controller's files. In a cgroup the file cache counts as used, but the part
// that has not been touched lately is dropped before anybody is killed, so it counts as available here.
#include "base/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace quire {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The number after `name` in a file of lines "name value"; `otherwise` when there is none.
int64_t number_after(const std::string& path, std::string_view name, int64_t otherwise) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  while (file >> word) {
    if (word == name) return file >> value ? value : otherwise;
  }
  return otherwise;
}

// The number that a file consists of; "max" is none.
int64_t number_in(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// What the cgroup in `dir` leaves; kNoLimit when it has no limit.
int64_t left_in(const std::string& dir, bool v2) {
  const int64_t limit = number_in(dir + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), kNoLimit);
  if (limit == kNoLimit) return kNoLimit;
  const int64_t used = number_in(dir + (v2 ? "/memory.current" : "/memory.usage_in_bytes"), 0);
  const int64_t cache = number_after(dir + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file", 0);
  return std::max(int64_t{0}, limit - std::max(int64_t{0}, used - cache));
}

// The least that is left from `path` up to the root. Folders that are absent are passed over: a container often sees
// its own cgroup as the root.
int64_t left_on_path(const std::string& root, std::string path, bool v2) {
  int64_t least = left_in(root, v2);
  while (!path.empty()) {
    least = std::min(least, left_in(root + path, v2));
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  return least;
}

int64_t left_in_cgroups() {
  std::ifstream file("/proc/self/cgroup");
  int64_t least = kNoLimit;
  std::string line;
  while (std::getline(file, line)) {  // "id:controllers:path"; v2 is "0::path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) least = std::min(least, left_on_path("/sys/fs/cgroup", path, true));
    if (controllers == "memory") least = std::min(least, left_on_path("/sys/fs/cgroup/memory", path, false));
  }
  return least;
}

int64_t left_in_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kNoLimit)));
  return std::max(int64_t{0}, most - number_after("/proc/self/status", "VmSize:", 0) * 1024);
}

}  // namespace

int64_t available_memory() {
  const int64_t system = number_after("/proc/meminfo", "MemAvailable:", 0) * 1024;
  return std::min({system, left_in_cgroups(), left_in_address_space()});
}

}  // namespace quire
