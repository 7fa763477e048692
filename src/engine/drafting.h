// Asks a proposer for drafts and keeps it honest: what it throws, or says too much or wrong of, is no draft and one
// counter. Knows no blocks and no budget. One scheduler's; engine thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/accounts.h"
#include "engine/answer.h"
#include "engine/draft_alarm.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "spec/controller.h"
#include "spec/proposer.h"
#include "spec/proposer_names.h"

namespace quire {

struct DraftLimits {
  int max_draft = 0;  // tokens of one draft; 0: there are no drafts
  int n_ctx = 0, n_vocab = 0;
  bool adapts = false;  // drafts are as long as it pays; else as long as may be
  int max_side = 0;     // tokens of a tree beside a draft
};

class Drafting {
 public:
  // `recorder` may be null; it hears every draft as an input. All outlive it.
  Drafting(std::shared_ptr<Proposer> proposer, const DraftLimits& limits, Accounts& accounts, InputRecorder* recorder)
      : proposer_(std::move(proposer)), limits_(limits), accounts_(accounts), recorder_(recorder) {
    if (limits.adapts) controller_.emplace(limits.max_draft, limits.max_side);
  }

  // Puts drafts of `room` tokens at most in all into the sequences of `streams`, grants of one due token each, and what
  // a tree has beside them as branches without blocks, where there is room behind all drafts. Where a grammar holds, a
  // draft and a branch end before the first token that may not come. `ahead` gives a sequence room in the cache
  // for so many tokens behind the due one and says for how many there is; it is asked where the proposer
  // writes_ahead().
  using RoomAhead = std::function<int(Sequence&, int)>;
  void propose(std::span<const Grant> streams, int room, const RoomAhead& ahead);
  bool writes_ahead() const { return proposer_->writes_ahead(); }
  // What was taken of the grant's guesses is part of the answer now.
  void verified(const Grant& grant, const Taken& taken);
  // The step took ns; the proposer hears what became of its drafts.
  void end_step(const Plan& plan, int64_t ns);
  void forget(SeqId id);
  // Tokens that the last step's drafts were to have at most.
  int depth() const { return controller_ ? controller_->depth() : limits_.max_draft; }

 private:
  int left_of(const Sequence& seq) const;
  int most_for(const Sequence& seq) const;
  bool reserve(size_t n);
  void choose(std::span<const Grant> streams, int room);
  std::span<Draft> asked(const RoomAhead& ahead);
  Draft& ask_for(const Sequence& seq, int n);
  int take(const Draft& draft, Sequence& seq, int room);
  int take_branches(const Draft& draft, Sequence& seq, int room);
  void record(const Sequence& seq);
  void tell();
  void warn();
  // Whether the proposer did what was asked of it and threw nothing.
  template <class F>
  bool ask(const F& f);
  bool is_true(const Draft& draft) const;

  std::shared_ptr<Proposer> proposer_;
  const DraftLimits limits_;
  Accounts& accounts_;
  InputRecorder* recorder_;
  std::optional<DepthController> controller_;
  bool chose_ = false;                  // the controller, in this step
  bool has_chosen_ = false;             // ever: before there is anything to guess it learns nothing and costs nothing
  int64_t n_behind_ = 0;                // tokens that the proposer took in first
  int n_drafted_ = 0, n_accepted_ = 0;  // in this step; branches are not counted among the former
  bool could_ = false;                  // somebody guess in this step
  DraftAlarm alarm_;
  std::vector<DepthController::Stream> streams_;
  // Reused from step to step; the first n_asked_ are of this one.
  std::vector<Draft> drafts_;
  std::vector<Sequence*> seqs_;
  size_t n_asked_ = 0;
  std::vector<Verified> verified_;
  // Of the tree that is recorded.
  std::vector<Token> tree_;
  std::vector<int32_t> parents_;
};

}  // namespace quire
