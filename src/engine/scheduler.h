// Decides and advances: plan() says who gets how many tokens and holds the blocks for them, commit() takes the results
// in. There is one kind of work, "grant the next n pending tokens"; decode, a chunk of a prompt and a resume after
// preemption are the same line. It alone says who runs and how far a sequence is, with the help of what knows one thing
// each: who pays (accounts.h), what is cached (pasts.h), who computes for others (leaders.h), what a token means
// (answer.h). Engine thread only.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/accounts.h"
#include "engine/answer.h"
#include "engine/drafting.h"
#include "engine/engine.h"
#include "engine/growth.h"
#include "engine/leaders.h"
#include "engine/loads.h"
#include "engine/pasts.h"
#include "engine/plan.h"
#include "engine/policy.h"
#include "engine/request_view.h"
#include "engine/step_cost.h"
#include "engine/swaps.h"
#include "engine/tenants.h"
#include "kv/kv_cache.h"
#include "kv/pins.h"

namespace quire {

class Scheduler {
 public:
  // `cache` and `policy` outlive the scheduler. `key`: what every sequence's prefix key has in common.
  Scheduler(const EngineOptions& options, KvCache& cache, const Policy& policy, const CacheKey& key);

  // From now on `proposer` drafts for those that stream. `recorder` may be null.
  void draft_with(std::shared_ptr<Proposer> proposer, const DraftLimits& limits, InputRecorder* recorder);

  // From now on what `tiers` have of a past is brought where that is sooner than computing it.
  void load_from(TierChain& tiers, BlockWatcher* watcher);

  // As Pasts::learn; before anything is added.
  void learn(const VirtualTokens& tokens, const std::function<void(const Plan&)>& compute) {
    pasts_.learn(tokens, options_.step_tokens, compute);
  }
  // From now on what requests wish to be pinned is held there. `pins` and `book` outlive it.
  void pin_into(Pins& pins, PinBook& book) {
    pins_ = &pins;
    pin_book_ = &book;
  }
  const Pins* pins() const { return pins_; }  // may be null
  const Swaps& swaps() const { return swaps_; }
  const Growth& growth() const { return growth_; }
  std::span<const Pasts::Learned> learned() const { return pasts_.learned(); }
  const Pasts& pasts() const { return pasts_; }

  // Throws std::bad_alloc with nothing changed, `seq` included. With it here no step takes memory for anybody but those
  // that it admits.
  void add(std::unique_ptr<Sequence>&& seq);
  // The next of those that wait whose first token cannot be there by its deadline, taken out; null: none, as far as is
  // known. Before plan().
  std::unique_ptr<Sequence> take_late(int64_t now_ns);
  // Takes the sequence out, wherever it is; null when it is unknown.
  std::unique_ptr<Sequence> remove(SeqId id);

  // The step's work within the token budget and, where sequences stream, the time that a step may take. Sequences with
  // one pending token come first (nobody's stream waits for another's prompt; where steps have a target of their own,
  // as many as have time in it, in turns), then chunks in the policy's order, then
  // admissions. When blocks run out the last in the policy's order is preempted: its blocks go to the prefix tree and
  // it waits at its old place. The first is never preempted, so it always advances, or one that computes what it needs
  // too does so on its place. Where sequences of several tenants are here, one that waits takes place and blocks of
  // those of other tenants that stand behind it, and goes before their prompts.
  const Plan& plan(int64_t now_ns);
  // The one that there was no memory for when plan() would have admitted it, taken out; null: none.
  std::unique_ptr<Sequence> take_starved();
  // Of steps that overlap (scheduler_ahead.cc). Whether the step behind the planned one can be planned before that
  // one's tokens are known. REQUIRES that nobody guesses but for
  // requests with rules, and that streams take no turns.
  bool may_run_ahead() const;
  // That step, behind advance(): a row for each that may go on, whose id the planned step gives. Null: there is no room
  // for it. From then on plan() waits for take_ahead(), and who leaves has no row in it.
  const Plan* plan_ahead();
  bool is_ahead() const { return !ahead_.grants.empty(); }  // false too when all of it have left
  // It is the planned one now, behind commit().
  const Plan& take_ahead(int64_t now_ns);
  // What is known before a value of the step is: how far everyone will be. Once it was asked for.
  void advance();
  // What the step's parts took so far: charged to those it is for, in proportion to rows. Before commit(), where it is
  // measured.
  void charge_stages(const StageTimes& ns) { accounts_.stages(plan_, ns); }
  // Takes in one result for each row of output, in plan order: tokens, rules, ends, and of drafts what came true; the
  // rest of these is given back. Sequences that ended are appended to `ended`, which has room for max_running(). After
  // advance().
  void commit(std::span<Sampled> sampled, int64_t now_ns, const EmitToken& emit, std::vector<Ended>& ended);

  // Instead of commit() when nothing could be computed: everyone with a grant ends with `error`.
  void fail_step(std::string_view error, std::vector<Ended>& ended);

  // Tokens that drafts are to have at most, as of the last step with streams; 0: none.
  int draft_depth() const { return drafting_ == nullptr ? 0 : drafting_->depth(); }

  int n_running() const { return static_cast<int>(running_.size()); }
  int n_waiting() const { return static_cast<int>(waiting_.size()); }
  // Somebody waits for a tier.
  bool loading() const {
    return std::ranges::any_of(running_, [](const auto& seq) { return seq->load != nullptr; });
  }
  // With a token of the budget for everyone that runs, all decode in every step and the first always advances.
  int max_running() const { return std::min(options_.max_seqs, options_.step_tokens); }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  Counters& counters() { return accounts_.counters(); }
  const Counters& counters() const { return accounts_.counters(); }
  // Until what waits now will have been computed, as far as the steps so far tell; 0: not at all.
  int64_t queue_ns() const;
  const StepCost& step_cost() const { return step_cost_; }
  // Of the last plan, for whoever asks why a sequence waits: whether it got something, whether all rows of a step are
  // given out, and why the first that waits was not admitted.
  struct Halt {
    Hold hold = Hold::none;
    int64_t wanted = 0, have = 0;  // as RequestView has them
  };
  bool granted(const Sequence& seq) const { return seq.moved_plan == n_plans_; }
  bool is_full() const { return plan_.n_tokens >= options_.step_tokens; }
  int step_tokens() const { return options_.step_tokens; }
  const Halt& halt() const { return halt_; }
  std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
  std::span<const std::unique_ptr<Sequence>> waiting() const { return waiting_; }

 private:
  using Seqs = std::vector<std::unique_ptr<Sequence>>;

  void make_room(uint64_t tenant);
  // By what tenants were served too, or as those that run stand.
  void sort(Seqs& seqs, bool by_service);
  void look_up_hits();
  int affordable(const Sequence& seq, int n) const;
  bool waits(Sequence& seq);
  void charge_rows();
  bool is_last(const Sequence& seq) const;  // scheduler_ahead.cc
  void grant_running(bool decoding);
  // Of running_, by number.
  size_t last() const;
  void preempt(size_t i, SentBack why);
  void give(Sequence& seq, int n_tokens);
  void sort_waiting();
  bool full();
  void admit(const Sequence* other);
  KvCache::Shortage shortage(const Sequence& seq) const;
  // Growth, seen ahead (scheduler_growth.cc).
  KvCache::Shortage shortage_ahead(Sequence& seq);
  KvCache::Shortage shortage_at_most(const Sequence& seq) const;
  Growing growing(Sequence& seq) const;
  bool admit_one(Sequence& seq, int budget);
  KvCache::Shortage begin(Sequence& seq, bool& restored);
  bool reserve_table(Sequence& seq);
  bool reserve_tokens(Sequence& seq);
  // Turns of tenants (turns.cc).
  static Turn turn(const Sequence& seq) {
    return {seq.n_ahead * kMostWeight / seq.tenant->weight, seq.ahead_plan, seq.id};
  }
  static Candidate candidate(const Sequence& seq, bool by_service);
  void enter(Sequence& seq);
  void leave(Sequence& seq);
  void count_pending();
  // Turns of streams (stream_turns.cc).
  struct StreamTurn {
    Sequence* seq;
    int n_before;  // of its tenant
  };
  void sort_streams();
  void choose_streams();
  double most_step_ns() const;
  int affordable_guesses(int n) const;
  static int64_t deadline_of(const Sequence& seq);  // scheduler_deadlines.cc
  double prompt_token_ns() const;                   // likewise
  bool goes_first(const Candidate& waiting, const Candidate& running);
  bool passes(const Sequence& waiting, const Sequence& running);
  bool could_fit(const Sequence& first);
  bool fits(Sequence& first);
  void make_way();
  void admit_before(size_t i);
  void grant_drafts();
  int room_ahead(Sequence& seq, int n);
  void grant_branches(Grant& grant);
  bool has_room(const Sequence& seq, Branch& branch);
  bool take_back_branches();
  bool take_back_drafts();
  void tap(const Grant& grant, const Taken& taken, int out, int first) const;
  void settle(const Grant& grant, const Taken& taken);
  void pin(Sequence& seq, Ended& end);  // scheduler_pins.cc
  void retain(const Sequence& seq);     // likewise

  const EngineOptions& options_;
  KvCache& cache_;
  const Policy& policy_;
  Accounts accounts_;
  Pasts pasts_;
  Leaders leaders_;
  Growth growth_;
  Swaps swaps_;
  Pins* pins_ = nullptr;  // null: nobody pins
  PinBook* pin_book_ = nullptr;
  std::unique_ptr<Loads> loads_;        // null: there is no tier
  std::unique_ptr<Drafting> drafting_;  // null: nobody guesses
  Seqs running_, waiting_;
  Plan plan_, ahead_;
  bool preempted_now_ = false, waiting_sorted_ = false;
  SeqId way_made_ = 0;  // in this plan, for this one: it is its tenant's turn
  SeqId starved_ = 0;   // of this plan
  Halt halt_;
  Tenants tenants_;
  int64_t n_pending_waiting_ = 0;  // tokens of all that wait
  double mean_generated_ = 0;      // by those that ended
  int64_t n_plans_ = 0, planned_ns_ = 0, committed_ns_ = 0, n_stream_turns_ = 0;
  StepCost step_cost_;
  std::vector<StreamTurn> streams_;    // scratch, of max_running() where steps have a target
  std::vector<Candidate> candidates_;  // scratch of sort
  std::vector<int> order_;
  Seqs sorted_;
  std::vector<Growing> growing_;  // scratch of shortage_ahead, of max_running() and one more
};

}  // namespace quire
