// Linux only: pthread names, sched affinity, and the cgroup files under /sys/fs/cgroup. A file that cannot be read
// means "no limit": a wrong guess costs speed, never correctness.
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace quire {
namespace {

constexpr size_t kMaxNameBytes = 15;  // TASK_COMM_LEN without the NUL
constexpr int kMaxCpus = 1 << 14;     // above any kernel's NR_CPUS

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The two numbers of "100000 200000"; nullopt for "max …", "-1" and anything else that is no limit.
std::optional<double> quota_of(std::string_view quota, std::string_view period) {
  int64_t q = 0, p = 0;
  if (std::from_chars(quota.data(), quota.data() + quota.size(), q).ec != std::errc{}) return std::nullopt;
  if (std::from_chars(period.data(), period.data() + period.size(), p).ec != std::errc{}) return std::nullopt;
  if (q <= 0 || p <= 0) return std::nullopt;
  return static_cast<double>(q) / static_cast<double>(p);
}

std::optional<double> quota_in(const std::string& dir, bool v2) {
  if (v2) {
    const auto text = read_text(dir + "/cpu.max");
    if (!text) return std::nullopt;
    const size_t blank = text->find(' ');
    if (blank == std::string::npos) return std::nullopt;
    return quota_of(std::string_view(*text).substr(0, blank), std::string_view(*text).substr(blank + 1));
  }
  const auto quota = read_text(dir + "/cpu.cfs_quota_us");
  const auto period = read_text(dir + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return quota_of(*quota, *period);
}

// Smallest quota from `dir` up to `root`; 0 when none limits. A container often sees its own cgroup as the root while
// /proc/self/cgroup still names the host's path: folders that are absent are passed over.
double tightest(const std::string& root, std::string path, bool v2) {
  double best = 0;
  while (true) {
    const auto quota = quota_in(root + path, v2);
    if (quota && (best == 0 || *quota < best)) best = *quota;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return best;
    path.resize(slash);
  }
}

bool names_cpu_controller(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

void set_thread_name(std::string_view name) {
  const std::string cut(name.substr(0, kMaxNameBytes));
  pthread_setname_np(pthread_self(), cut.c_str());
}

std::string thread_name() {
  std::array<char, kMaxNameBytes + 1> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

// On Linux a nice value is the thread's own, whatever POSIX says.
void step_behind_others(int more) {
  const auto self = static_cast<id_t>(gettid());
  const int nice = getpriority(PRIO_PROCESS, self);
  setpriority(PRIO_PROCESS, self, std::min(nice + more, 19));
}

std::vector<int> allowed_cpus() {
  // The kernel refuses a mask smaller than its own, so it grows until it fits.
  for (int n = 1024; n <= kMaxCpus; n *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(n));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(n));
    std::vector<int> out;
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (int i = 0; i < n; ++i)
        if (CPU_ISSET_S(static_cast<size_t>(i), bytes, set)) out.push_back(i);
    }
    CPU_FREE(set);
    if (!out.empty()) return out;
  }
  return {0};
}

double cgroup_cpu_quota() {
  const auto text = read_text("/proc/self/cgroup");
  if (!text) return 0;
  double best = 0;
  std::string_view rest = *text;
  while (!rest.empty()) {  // lines "id:controllers:path"; v2 is "0::path"
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    const bool v2 = controllers.empty();
    if (!v2 && !names_cpu_controller(controllers)) continue;
    const double quota = tightest(v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu", path, v2);
    if (quota > 0 && (best == 0 || quota < best)) best = quota;
  }
  return best;
}

namespace {

int cut_to_quota(int n) {
  const double quota = cgroup_cpu_quota();
  if (quota <= 0) return n;
  return std::max(1, std::min(n, static_cast<int>(std::ceil(quota))));
}

}  // namespace

int n_usable_cpus() { return cut_to_quota(static_cast<int>(allowed_cpus().size())); }

CpuOrder order_by_core(const std::vector<int>& cpus, const std::string& topology) {
  std::vector<std::pair<int, int>> rounds;  // the how manieth of its core, CPU
  std::map<std::string, int> seen;          // CPUs of a core so far; siblings have the same list
  for (const int cpu : cpus) {
    const std::string name = "/cpu" + std::to_string(cpu);
    const auto siblings = read_text(topology + name + "/topology/thread_siblings_list");
    rounds.emplace_back(seen[siblings.value_or(name)]++, cpu);
  }
  std::stable_sort(rounds.begin(), rounds.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  CpuOrder out;
  for (const auto& [round, cpu] : rounds) {
    out.cpus.push_back(cpu);
    out.n_cores += round == 0 ? 1 : 0;
  }
  return out;
}

int node_of(int cpu, const std::string& topology) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(topology + "/cpu" + std::to_string(cpu), error)) {
    const std::string name = entry.path().filename();
    int node = 0;
    if (!name.starts_with("node")) continue;
    const char* end = name.data() + name.size();
    const auto [rest, failed] = std::from_chars(name.data() + 4, end, node);
    if (failed == std::errc{} && rest == end && node >= 0) return node;
  }
  return 0;
}

std::vector<int> cpus_for(int n_threads) {
  if (n_threads > n_usable_cpus()) return {};
  std::vector<int> cpus = order_by_core(allowed_cpus()).cpus;
  cpus.resize(static_cast<size_t>(n_threads));
  return cpus;
}

int n_usable_cores() { return cut_to_quota(order_by_core(allowed_cpus()).n_cores); }

Status pin_thread(int cpu) {
  const std::vector<int> allowed = allowed_cpus();
  if (!std::binary_search(allowed.begin(), allowed.end(), cpu))
    return fail(Code::invalid, "cpu " + std::to_string(cpu) + " is not among the " + std::to_string(allowed.size()) +
                                   " that this process may use");
  const auto n = static_cast<size_t>(cpu) + 1;
  cpu_set_t* set = CPU_ALLOC(n);
  if (set == nullptr) return fail(Code::exhausted, "no memory for a cpu mask");
  const size_t bytes = CPU_ALLOC_SIZE(n);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  const int rc = pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
  if (rc != 0) return fail(Code::invalid, "cannot pin to cpu " + std::to_string(cpu));
  return {};
}

}  // namespace quire
