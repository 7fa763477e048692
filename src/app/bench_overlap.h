// What steps that overlap are worth (docs/engine.md): the same answers step by step and overlapping, in turns.
#pragma once
#include <vector>

#include "app/wire.h"

namespace quire {

struct OverlapBench {
  std::vector<int> users;  // at once, each ≥ 1
  int n_prompt = 64, n_generate = 128, n_rounds = 5;
  bool sampled = false;  // temperature 1, top-k 50, top-p 0.95; else the likeliest token
  bool json = false;
};
// One line for each number of users: milliseconds of a step in either way, and which share of the host's part of a step
// is hidden; its part is what a step takes beside the wait for the device. Code::unsupported where the backend computes
// on the host itself. Code::internal where an answer differs.
Status bench_overlap(const LoadedModel& loaded, const OverlapBench& wanted);

}  // namespace quire
