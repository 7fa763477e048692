// What guessing ahead is worth over numbers of users: the same questions without and with it, in turns, and that both
// gave the same answers.
#pragma once
#include <string>
#include <vector>

#include "app/spec_options.h"
#include "app/wire.h"

namespace quire {

struct SpecBench {
  SpecChoice spec;
  std::vector<int> users;  // at once, each ≥ 1
  int n_generate = 128, n_rounds = 5;
  bool sampled = false, json = false;
  std::string prompts = {};  // a file with one on every line; empty: a few of its own
};
// One line for each number of users. Code::internal where an answer differs.
Status bench_spec(const LoadedModel& loaded, const Drafter& drafter, const SpecBench& wanted);

}  // namespace quire
