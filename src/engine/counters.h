// What only ever grows, in one piece: whoever counts something counts it here, whoever reads takes a copy.
#pragma once
#include <array>
#include <cstdint>

#include "engine/request.h"
#include "spec/proposer_names.h"

namespace quire {

struct Counters {
  int64_t n_steps = 0, n_submitted = 0, n_finished = 0, n_cancelled = 0, n_failed = 0, n_preempted = 0;
  int64_t n_bad_drafts = 0;  // calls of a proposer that threw, and drafts that cannot be
  // Of guesses that were verified, by who made them (Draft::by): how many, their tokens, those that came true.
  struct ByProposer {
    int64_t n_drafts = 0, n_drafted = 0, n_accepted = 0;
  };
  std::array<ByProposer, kMostProposers> drafted_by{};
  int64_t n_drafts = 0;  // that were verified; their tokens: spent.computed of Cause::draft
  std::array<int64_t, kMostDraft> n_drafted_at{}, n_accepted_at{};  // of their tokens those at each position
  // What guesses as they pay are reckoned to have saved and lost, and runs of steps in which few of them came true, or
  // nobody guessed (DraftAlarm).
  int64_t draft_saved_ns = 0, draft_lost_ns = 0, n_few_accepted = 0, n_never_drafted = 0;
  int64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_generated_tokens = 0;
  // Tokens that were brought from disk, and the runs of blocks that did: begun, not begun because computing was sooner,
  // given up because it had become so, ended because a block could not be had.
  int64_t n_loaded_tokens = 0, n_loads = 0, n_loads_declined = 0, n_loads_overtaken = 0, n_loads_lost = 0;
  // Sequences that were copied out of the cache when they were preempted, and back; for which there was no room; tokens
  // that came back so.
  int64_t n_swaps_out = 0, n_swaps_in = 0, n_swaps_refused = 0, n_swapped_tokens = 0;
  // Of the preempted: those for whom blocks ran out; rows of the recomputed that this had cost.
  int64_t n_out_of_blocks = 0, n_recomputed_for_blocks = 0;
  int64_t n_bounded = 0, n_dropped_tokens = 0;  // prompts that dropped blocks for their kv_budget, and of what
  int64_t n_unretained_blocks = 0;              // that were to be retained and were not, for a limit
  int64_t n_unretained_below = 0;               // the same of blocks in tiers
  // Steps that were asked for while the one before them ran; rows of these behind the end of a sequence.
  int64_t n_steps_ahead = 0, n_dropped_rows = 0;
  int64_t n_rows = 0, busy_ns = 0;                    // computed in all steps, and how long these took
  int64_t n_slot_steps = 0, n_filled_slot_steps = 0;  // slots of the blocks that ran with each step, those with a token
  StageTimes stage_ns{};                              // of all steps, where EngineEnv has a stage_clock
  Cost spent;  // what all sequences so far were charged; of stage_ns the rest is overhead
};

}  // namespace quire
