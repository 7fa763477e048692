// A recorded run, run again (engine/recording.h). Exactly: the same inputs at the same times, so every decision is the
// same; with the recorded answers, or with the model to see that it still gives them. Or under other options: the same
// arrivals and answers, steps as long as the recorded ones teach (engine/step_cost.h), to see what an option would have
// changed.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/play.h"
#include "engine/recording.h"
#include "sample/constraint.h"

namespace quire {

struct ReplayOutcome {
  EngineStats stats;
  uint64_t hash = 0;        // of all decisions
  std::string difference;   // exactly: the first decision or token that is not the recorded one; empty: none
  int64_t n_refused = 0;    // otherwise: requests that these options cannot take
  int64_t n_invented = 0;   // otherwise: tokens behind what was recorded, of requests that were cancelled then
  int64_t duration_ns = 0;  // from the first arrival to the last end
  std::vector<int64_t> ttft_ns, itl_ns;  // rising
};

// `cost` learns from the recorded steps. Code::corrupt when the recording contradicts itself.
Result<ReplayOutcome> replay_exactly(const Recording& recording, StepCost& cost);
// What recorded rules are made of again. Either may lack: then a recording that needs it is Code::unsupported.
struct RecordedRules {
  // A constraint of its source. Called once for each request that has one.
  std::function<Result<std::shared_ptr<const Constraint>>(const Constraint& recorded)> compile{};
  std::shared_ptr<const TokenTrie> vocabulary{};  // in which budgets of thinking read tokens
};
// With the model that was recorded (Code::invalid with both fingerprints when it is another one). `prefixes` must have
// those that the recording had (Code::invalid names the first that is missing).
Result<ReplayOutcome> replay_with_model(const Recording& recording,
                                        const Model& model,
                                        Ops& ops,
                                        const RecordedRules& rules,
                                        std::vector<VirtualTokens> prefixes = {});
// options.kv_bytes is not used: the cache has n_blocks.
Result<ReplayOutcome> replay_under(const Recording& recording,
                                   const EngineOptions& options,
                                   int n_blocks,
                                   const StepCost& cost);

// At rank q of a rising list, 0 ≤ q ≤ 1; 0 for an empty one.
int64_t at_rank(const std::vector<int64_t>& rising, double q);

}  // namespace quire
