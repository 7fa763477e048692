// What `quire doctor` knows of the machine and what it makes of it. gather_facts() asks the system; diagnose() is pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/step_needs.h"
#include "base/json.h"
#include "base/result.h"

namespace quire {

struct DoctorFacts {
  std::vector<std::string> isas;     // that run here, narrowest first
  int n_cpus = 1, n_allowed = 1;     // online; in the affinity mask
  int n_cores = 1;                   // physical ones with a CPU in the mask
  int n_nodes = 1;                   // of memory, next to the CPUs in the mask
  double cpu_quota = 0;              // CPUs' worth of time by the cgroup, 0: no limit
  int n_threads = 1;                 // that the engine would use
  std::string governor;              // of the first allowed CPU; empty: the kernel does not say
  std::string huge_pages;            // always, madvise or never; empty: the kernel does not say
  int64_t available = 0, total = 0;  // bytes of memory
  int64_t swap_total = 0, swap_used = 0;
  int64_t open_files = 0;  // soft limit
  double load = 0;         // runnable threads, one-minute mean
  // Measured; 0: not measured.
  double read_bytes_s = 0;
  UnitPeak peak;
};

// A model's part of it; zeros where none was named.
struct ModelFacts {
  int64_t weights = 0, needs = 0;  // bytes; of the smallest useful server
  StepNeeds step;
};

enum class Severity : uint8_t { ok, hint, problem };
struct Finding {
  std::string subject;  // "huge pages"
  Severity severity = Severity::ok;
  std::string says, hint;  // what is; what would help (empty when ok)
};

// The processor's numbers but for what is measured.
DoctorFacts gather_facts();
std::vector<Finding> diagnose(const DoctorFacts& machine, const ModelFacts& model);

// What decoding one short sequence and a prompt of kCeilingPrompt tokens cannot exceed, in tokens per second, by the
// same counts as the shares of `quire bench`; 0 where nothing was measured.
inline constexpr int kCeilingPrompt = 512;
struct Ceiling {
  double decode = 0, prefill = 0;
};
Ceiling ceiling(const DoctorFacts& machine, const ModelFacts& model);

}  // namespace quire
