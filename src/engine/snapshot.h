// What the engine holds, as plain numbers: for tests after every step, for metrics, for debugging.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/counters.h"
#include "kv/tiers/tier.h"

namespace quire {

// Counters as of the last step, and what is there now.
struct EngineStats : Counters {
  int n_waiting = 0, n_running = 0;
  int draft_depth = 0;  // tokens that guesses were to have at most in the last step with streams
  int n_blocks = 0, n_free_blocks = 0, n_cached_blocks = 0;  // cached: in the tree and held by nobody else
  int n_window_blocks = 0, n_free_window_blocks = 0, n_cached_window_blocks = 0;  // of layers that see a window
  int n_states = 0, n_free_states = 0, n_cached_states = 0;  // of layers that keep one in place of attention
  int n_learned_blocks = 0;                 // of n_blocks: those of learned prefixes; of windows each group has as many
  int n_pins = 0, n_pinned_blocks = 0;      // blocks of the first group, each counted once
  int64_t pinned_bytes = 0, pin_bytes = 0;  // what pins hold, and may hold
  int64_t swapped_bytes = 0, swap_bytes = 0;                // of copies of preempted sequences, and at most
  int n_retained_blocks = 0, most_retained_blocks = 0;      // that stay for longer, and may
  int64_t recompute_credit = 0, most_recompute_credit = 0;  // tokens that may still be lost to preemption (growth.h)
  int64_t step_ns = 0;                                      // duration of the last step
  std::vector<TierStats> tiers;                             // nearest first; only Engine::stats() fills it
  int64_t queue_ns = 0;  // until what waits now will have been computed, as the fitted step time says; 0: unknown
};

// One sequence: running ones first, in their order, then those that wait.
struct SequenceView {
  SeqId id = 0;
  bool running = false;
  int n_prompt = 0, n_tokens = 0, n_computed = 0, n_blocks = 0, n_window_blocks = 0, n_states = 0;
};

struct Snapshot {
  EngineStats stats;
  std::vector<SequenceView> seqs;
  int n_held_blocks = 0;         // in some sequence's table, a learned prefix or a pin (shared ones counted once)
  int n_held_window_blocks = 0;  // the same of layers that see a window
  int n_held_states = 0;         // of those that keep a state
  int n_indexed_blocks = 0;      // in the tree
  int64_t n_refs = 0, n_expected_refs = 0;  // as the pool counts, as the holders do
  Cost cost;                                // of all sequences that ended or run or wait
  std::string ref_error;                    // names the first block whose references are not its holders
  std::string tree_error;                   // of the prefix tree's own check

  // Empty when consistent: free + (held ∪ indexed) = total, every block has as many references as holders, and what
  // sequences were charged is what was spent.
  std::string check() const;
};

}  // namespace quire
