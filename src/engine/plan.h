// What one step does: who gets how many of its next pending tokens. Remade each step; the sequences it names stay where
// they are until it is committed.
#pragma once
#include <vector>

#include "engine/sequence.h"
#include "engine/step_cost.h"

namespace quire {

// Rows of one sequence, for its next pending tokens. Why each is computed is known now, whatever comes of it.
struct Grant {
  Sequence* seq = nullptr;
  int n_tokens = 0;   // rows
  int n_out = 0;      // the last n_out of them give a token each
  int n_drafted = 0;  // the last n_drafted of them compute guesses; then each of these and the one before gives a token
  int n_side = 0;     // rows of the sequence's branches beside them; each gives a token. They lie behind all grants'
  int n_recomputed = 0;  // the first n_recomputed of them were computed before
  int first_out = 0;     // Plan::place: the first of its rows of output, without branches', as the step is asked for
  int ids_from = -1;     // row of output of the step before that gives the id of its one row; −1: that is known

  // Of them those that an adapter adds to are the last n_adapted(), n_tokens at most. Before the sequence moves on.
  int n_adapted() const;
  const Adapter* adapter() const { return n_adapted() > 0 ? seq->request.adapter.get() : nullptr; }  // null: none
  // Before the sequence moves on.
  StepShape shape() const;
  int n_rows() const { return n_tokens + n_side; }  // of branches too
};

struct Plan {
  std::vector<Grant> grants;
  int n_tokens = 0, n_out = 0, n_drafted = 0;  // of branches too
  int n_branches = 0;
  StepShape shape;

  void clear();
  void add(const Grant& grant);
  // Its grant, where it has one, is given to nobody. False: it has none.
  bool drop(const Sequence& seq);
  // Puts those of the same adapter side by side, so that its weights are read once.
  void group_adapters();
  // One of its grants has n drafted rows now, and no branches. REQUIRES a grant of one row and its drafts.
  void set_drafted(Grant& grant, int n);
  // And rows for the branches that its sequence has.
  void set_branches(Grant& grant);
  // Says where rows lie, of every branch behind those of all grants, in their order. When nothing changes any more.
  void place();

 private:
  void count(const Grant& grant, int sign);
};

}  // namespace quire
