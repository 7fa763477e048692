// What more requests than the cache has room for cost, as tables: tokens that are computed again, and the time of all,
// with and without the bound of engine/growth.h.
#pragma once
#include <cstdint>
#include <string>

#include "tests/sim/script.h"

namespace quire::sim {

// Many requests at once before a cache of eight contexts, whose answers end long before the most that they ask for.
// `grown`: answers of the second half are eight times as long as those that were before.
Script overload_script(uint64_t seed, bool grown, int recompute_percent);
// The table of docs/engine.md, over n seeds; the first failure instead where there is one.
std::string overload_table(uint64_t n);

}  // namespace quire::sim
