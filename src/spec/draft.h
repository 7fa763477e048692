// A guess: what is asked for a sequence, what a proposer answers, and what became of it. Plain values; engine thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "sample/sampling_params.h"

namespace quire {

struct SeqKv;

// What is asked for one sequence, and the answer to it.
struct Draft {
  SeqId seq = 0;
  std::span<const Token> context;  // every token that the sequence has; the last one is due
  int n_prompt = 0;                // leading tokens that are its prompt
  int n_before = 0;                // positions before the context: of virtual tokens, which nobody guesses from
  int max_tokens = 0;              // ≥ 1, each behind the one before
  int max_side = 0;                // tokens of a tree beside these
  // What else the sequence's tokens come of, for those who write as the target would; null: not told.
  const SamplingParams* sampling = nullptr;
  std::span<const Token> ends;  // behind which there is nothing
  uint64_t salt = 0;            // who may share its past, but for the first n_public tokens
  int n_public = 0;
  // Row of the proposer's taps() that its due token was drawn from; −1: its last row was not of the step before.
  int tapped = -1;
  // The rows of all_rows() that it had in the step before and that are part of its past now, the last of them that
  // which its due token was drawn from: the first of them, and how many. 0: it had none. The last n_branch of them do
  // not follow the others; they lie from branch_row on.
  int first_row = 0, n_rows = 0;
  int branch_row = 0, n_branch = 0;
  // Its blocks in the target's cache, with room behind what is computed for the due token and max_tokens − 1 more; of a
  // proposer that writes_ahead() alone, else null.
  const SeqKv* kv = nullptr;

  // The answer: empty when it is asked for, and the vectors keep their room from step to step. More tokens than asked
  // for, an id outside of the vocabulary, lists of other lengths, a parent that does not come before its child: then
  // there is no draft, and it is counted.
  std::vector<Token> tokens;
  // Of each token which of `tokens` it follows, −1: the context. Empty: each follows the one before. Of a tree the
  // leading tokens of which each follows the one before are the draft proper, max_tokens of them at most. All others
  // are beside it, and verified where there is room.
  std::vector<int32_t> parents;
  std::vector<float> probs;  // with which each was drawn, for those who verify by them; empty: not known
  int n_sure = 0;            // leading tokens beside which nothing is allowed (a grammar says so)
  int n_behind = 0;          // tokens of the context that were taken in first: work that does not come again
  int by = 0;                // which of several proposers it is of (spec/several.h)
};

// What became of a draft.
struct Verified {
  SeqId seq = 0;
  int n_drafted = 0, n_accepted = 0;
  int n_right = 0;  // of the n_accepted the draft's own, before a branch went on
  int n_side = 0;   // tokens that were verified beside the n_drafted
  int n_first = 0;  // of these those in the place of the first, in the draft's order
  int came = -1;    // which of those came true; −1: none of them
};

}  // namespace quire
