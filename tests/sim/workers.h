// Runs scripts in processes of their own, so that a failed check, an endless loop or a crash is an answer like any
// other: the parent learns which seed it was and what was said. POSIX only; call it from a program with one thread.
#pragma once
#include <cstdint>
#include <string>

#include "tests/sim/world.h"

namespace quire::sim {

struct Report {
  bool failed = false;
  uint64_t seed = 0;    // the lowest that failed
  std::string failure;  // its own words, or how the process ended and the last of what it printed
  Counts counts;        // of all that passed
};

// The scripts of seeds [first, first + n), shared among n_workers processes. Stops at the first failure.
Report run_seeds(uint64_t first, uint64_t n, int n_workers, Script (*script_of)(uint64_t) = random_script);

// One script; empty when all held.
std::string failure_of(const Script& script);
// Whether that is the engine's failure, and not one of a script that no engine can be made of.
inline bool fails_by_itself(const std::string& failure) {
  return !failure.empty() && !failure.starts_with("no engine");
}

}  // namespace quire::sim
