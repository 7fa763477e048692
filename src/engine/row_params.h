// What each row of output asks of the sampler: its own edits and numbers, from the rules as they stand behind the
// tokens before it. Of drafted rows these are the sequence's and the guesses before them; the rules are rolled back
// behind it, so that they only ever keep what was committed; of a branch's likewise. One engine's; engine thread, which
// has the masks of several grammars made on the threads of Ops::each.
#pragma once
#include <span>
#include <vector>

#include "engine/plan.h"
#include "ops/ops.h"

namespace quire {

class RowParams {
 public:
  // For so many rows of output.
  void reserve(size_t n) {
    edits_.resize(n);
    params_.reserve(n);
    masked_.reserve(n);
  }
  // Of all rows of output of the plan, in its order. Views what the sequences have and what this object keeps.
  std::span<const SampleParams> make(const Plan& plan, Ops& ops);

 private:
  // Of a grant and the first of its rows.
  struct Rows {
    const Grant* grant;
    size_t begin;
  };
  void fill(const Rows& rows);
  void fill_chain(const Rows& rows);
  void fill_branch(Sequence& seq, Branch& branch);
  void fill_row(Sequence& seq, size_t row, int n_guessed);

  std::vector<LogitEdits> edits_;  // by row, each with the room that it once needed
  std::vector<SampleParams> params_;
  std::vector<Rows> masked_;  // those with a grammar
};

}  // namespace quire
