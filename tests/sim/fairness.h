// What a tenant that floods the engine costs another, and what tenants get of it: the tables of docs/engine.md.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/script.h"

namespace quire::sim {

// How a flood is met: not at all (the quiet tenant is alone), in the order of arrival, in turns, by virtual
// tokens, by virtual tokens with an allowance.
enum class Met : uint8_t { alone, fifo, turns, vtc, allowance };

// A quiet tenant (1) whose prompts take several steps each, and another (0) that sends at once what takes the whole
// run, of the same kind or of another.
Script flood_script(uint64_t seed, Met met);

// First-token times of the quiet tenant over the floods of seeds [first, first + n), rising.
struct FloodTimes {
  std::vector<int64_t> ttft_ns;
  int64_t n_steps = 0;  // of all that both asked for
  std::string failure;  // empty: all held
};
FloodTimes flood_times(uint64_t first, uint64_t n, Met met);

// Both tables, from n floods.
std::string fairness_tables(uint64_t n);

}  // namespace quire::sim
