#include "app/doctor.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>

#include "app/memory_plan.h"
#include "app/wire.h"
#include "base/memory.h"
#include "base/thread.h"

namespace quire {
namespace {

constexpr int64_t kWantedFiles = 4096;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "always [madvise] never" → "madvise".
std::string chosen(const std::string& line) {
  const size_t from = line.find('['), to = line.find(']');
  return from == std::string::npos || to == std::string::npos ? "" : line.substr(from + 1, to - from - 1);
}

std::string number(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %s", value, unit);
  return text;
}

Finding processor(const DoctorFacts& m) {
  const std::string widest = m.isas.empty() ? "none" : m.isas.back();
  if (widest.starts_with("avx512") || widest == "amx") return {"instruction set", Severity::ok, widest, ""};
  if (widest == "avx2") {
    return {"instruction set", Severity::hint, widest,
            "AVX-512 with VNNI multiplies prompts faster; decoding is bound by memory either way"};
  }
  return {"instruction set", Severity::problem, widest,
          "without AVX2 prompts are very slow; in a virtual machine pass the host's CPU through"};
}

Finding threads(const DoctorFacts& m) {
  std::string says = std::to_string(m.n_threads) + " threads on " + std::to_string(m.n_cores) + " cores, " +
                     std::to_string(m.n_allowed) + " of " + std::to_string(m.n_cpus) + " CPUs";
  if (m.n_nodes > 1) says += ", " + std::to_string(m.n_nodes) + " memory nodes";
  if (m.cpu_quota > 0) says += ", quota " + number(m.cpu_quota, "CPUs");
  if (m.cpu_quota > 0 && m.cpu_quota < m.n_threads) {
    return {"threads", Severity::hint, says,
            "the cgroup stops threads in the middle of a step: use --threads " +
                std::to_string(std::max(1, static_cast<int>(m.cpu_quota))) + " or raise cpu.max"};
  }
  if (m.n_threads > m.n_cores) {
    return {"threads", Severity::hint, says,
            "threads of one core share its multipliers: --threads " + std::to_string(m.n_cores) + " is often as fast"};
  }
  if (m.n_allowed < m.n_cpus)
    return {"threads", Severity::hint, says, "the affinity mask (taskset, cpuset) leaves CPUs out"};
  return {"threads", Severity::ok, says, ""};
}

Finding load(const DoctorFacts& m) {
  const std::string says = number(m.load, "runnable threads");
  if (m.load < 0.5 * m.n_cpus) return {"load", Severity::ok, says, ""};
  return {"load", Severity::hint, says, "others use the CPUs: steps wait for the slowest thread, and figures vary"};
}

Finding governor(const DoctorFacts& m) {
  if (m.governor.empty()) return {"governor", Severity::ok, "not visible (usual in a virtual machine)", ""};
  if (m.governor == "performance") return {"governor", Severity::ok, m.governor, ""};
  return {"governor", Severity::hint, m.governor,
          "the clock may stay low: cpupower frequency-set -g performance (as root)"};
}

Finding huge_pages(const DoctorFacts& m) {
  if (m.huge_pages == "always" || m.huge_pages == "madvise") return {"huge pages", Severity::ok, m.huge_pages, ""};
  return {"huge pages", Severity::hint, m.huge_pages.empty() ? "not visible" : m.huge_pages,
          "4 KiB pages can halve the speed of reading weights: echo madvise > "
          "/sys/kernel/mm/transparent_hugepage/enabled (as root)"};
}

Finding swap(const DoctorFacts& m) {
  if (m.swap_total == 0) return {"swap", Severity::ok, "none", ""};
  const std::string says = memory_text(m.swap_used) + " of " + memory_text(m.swap_total) + " in use";
  if (m.swap_used * 10 < m.swap_total) return {"swap", Severity::ok, says, ""};
  return {"swap", Severity::hint, says, "weights that are swapped out stop the server for seconds: free memory"};
}

Finding files(const DoctorFacts& m) {
  const std::string says = std::to_string(m.open_files);
  if (m.open_files >= kWantedFiles) return {"open files", Severity::ok, says, ""};
  return {"open files", Severity::hint, says, "each connection takes one: ulimit -n " + std::to_string(kWantedFiles)};
}

Finding memory(const DoctorFacts& m, const ModelFacts& model) {
  const std::string says = memory_text(m.available) + " of " + memory_text(m.total) + " available";
  if (model.needs <= m.available) return {"memory", Severity::ok, says, ""};
  return {"memory", Severity::problem, says + ", the model needs " + memory_text(model.needs),
          "a smaller format (--weights), a smaller model, or a higher memory limit"};
}

}  // namespace

DoctorFacts gather_facts() {
  DoctorFacts out;
  out.isas = usable_isas();
  out.n_cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const std::vector<int> allowed = allowed_cpus();
  out.n_allowed = static_cast<int>(allowed.size());
  out.cpu_quota = cgroup_cpu_quota();
  out.n_cores = order_by_core(allowed).n_cores;
  std::set<int> nodes;
  for (const int cpu : allowed) nodes.insert(node_of(cpu));
  out.n_nodes = static_cast<int>(nodes.size());
  out.n_threads = n_usable_cores();
  out.governor =
      first_line("/sys/devices/system/cpu/cpu" + std::to_string(allowed.front()) + "/cpufreq/scaling_governor");
  out.huge_pages = chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  out.available = available_memory();
  struct sysinfo info = {};
  if (sysinfo(&info) == 0) {
    out.total = static_cast<int64_t>(info.totalram) * info.mem_unit;
    out.swap_total = static_cast<int64_t>(info.totalswap) * info.mem_unit;
    out.swap_used = out.swap_total - static_cast<int64_t>(info.freeswap) * info.mem_unit;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) out.open_files = static_cast<int64_t>(limit.rlim_cur);
  double loads[1] = {0};
  if (getloadavg(loads, 1) == 1) out.load = loads[0];
  return out;
}

std::vector<Finding> diagnose(const DoctorFacts& m, const ModelFacts& model) {
  return {processor(m), threads(m), load(m), governor(m), huge_pages(m), memory(m, model), swap(m), files(m)};
}

Ceiling ceiling(const DoctorFacts& m, const ModelFacts& model) {
  Ceiling out;
  const double prompt_ops = model.step.ops(0, kCeilingPrompt, 1);
  if (model.step.weight_bytes > 0) out.decode = m.read_bytes_s / model.step.weight_bytes;
  if (prompt_ops > 0) out.prefill = model.step.limit(m.peak) * kCeilingPrompt / prompt_ops;
  return out;
}

}  // namespace quire
