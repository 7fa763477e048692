// What more requests than the cache has room for cost, as tables: tokens that are computed again, and the time of all,
// with and without the bound of engine/growth.h.
#pragma once
#include <cstdint>
#include <string>

#include "tests/sim/script.h"

namespace quire::sim {

// Requests before a cache of eight contexts, one every gap_ns, whose answers end long before the most that they ask
// for. `grown`: answers of the second half are eight times as long as those that were before.
struct Overload {
  bool grown = false;
  int recompute_percent = 5;
  int64_t gap_ns = 50'000'000;
};
Script overload_script(uint64_t seed, const Overload& what);
// Requests a second of that script that are served where all of them come at once, over n seeds; 0: a run failed.
double served_per_s(uint64_t n);
// Tables over n seeds: a row for each load, a column for each bound; the first failure instead
// where there is one.
std::string overload_tables(uint64_t n);

}  // namespace quire::sim
