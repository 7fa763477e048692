// From a script that fails to the smallest that still does: fewer requests, fewer tokens and so fewer steps, no faults
// that do not matter, knobs at their defaults. Greedy: a change is kept when the script still fails (in whatever way).
#pragma once
#include <functional>
#include <string>

#include "tests/sim/script.h"

namespace quire::sim {

// `fails` runs a script; at most max_tries times.
Script shrink(Script script, const std::function<bool(const Script&)>& fails, int max_tries);

}  // namespace quire::sim
