// What runs: a request, how far it is, and what each part of the engine keeps of it. What is not yet computed of its
// tokens and its draft is granted in order, be it a prompt, a resume after preemption, the last sampled token or a
// guess. Engine thread only, once it was submitted.
#pragma once
#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/budget.h"
#include "engine/load.h"
#include "engine/request.h"
#include "engine/request_view.h"
#include "engine/tenants.h"
#include "kv/kv_cache.h"
#include "kv/kv_image.h"

namespace quire {

// Guesses beside a sequence's draft: they go on behind some of its tokens, in blocks of their own.
struct Branch {
  int n_shared = 0;           // leading tokens of the draft that it goes on behind
  std::vector<Token> tokens;  // its own, each behind the one before
  KvBranch kv;
  int first_row = 0, first_out = 0;  // Plan: where its rows lie in the step, one for each of its tokens
  int n_checked = 0;                 // of these that the rules have followed
};

// Of a sequence. Those that are gone keep their room for the next, so that few steps take memory.
class Branches {
 public:
  // One more, empty. Throws std::bad_alloc with nothing changed.
  Branch& add() {
    if (n_ == all_.size()) all_.emplace_back();
    return all_[n_++];
  }
  // What they hold is given back.
  void clear() {
    keep([](const Branch&) { return false; });
  }
  // Those alone for which f says so, asked in order.
  template <class F>
  void keep(const F& f) {
    size_t n = 0;
    for (size_t i = 0; i < n_; ++i) {
      if (f(all_[i])) {
        std::swap(all_[n++], all_[i]);
      } else {
        drop(all_[i]);
      }
    }
    n_ = n;
  }
  void drop_last() { drop(all_[--n_]); }
  bool empty() const { return n_ == 0; }
  int size() const { return static_cast<int>(n_); }
  Branch& operator[](int i) { return all_[static_cast<size_t>(i)]; }
  const Branch& operator[](int i) const { return all_[static_cast<size_t>(i)]; }
  Branch* begin() { return all_.data(); }
  Branch* end() { return all_.data() + n_; }
  const Branch* begin() const { return all_.data(); }
  const Branch* end() const { return all_.data() + n_; }

 private:
  static void drop(Branch& branch) {
    branch.tokens.clear();
    branch.kv.blocks.clear();
  }
  std::vector<Branch> all_;
  size_t n_ = 0;
};

struct Sequence {
  // Whoever submits it; constant from then on.
  SeqId id = 0;
  Request request;  // its prompt moves into `tokens` when the engine takes it in
  std::shared_ptr<EventSink> sink;
  int n_virtual = 0;  // leading tokens that stand for the request's virtual ones; count as tokens of its prompt here
  int n_prompt = 0;
  PromptBudget budget;
  int n_base = 0;  // leading tokens that its adapter adds nothing to (engine/invocation.h); kNotInvoked: to none
  int64_t submitted_ns = 0;

  // Scheduler: what there is, how much of it is computed, and where that lies.
  std::vector<Token> tokens;  // virtual ones (zeros), prompt, then what was sampled
  std::vector<Token> draft;   // guesses behind them, not yet verified
  Branches branches;          // of a tree of guesses, beside the draft
  int draft_by = 0;           // whose they are: Draft::by
  int n_computed = 0;         // leading tokens whose keys and values are in the cache
  SeqKv kv;
  bool began_block = false;  // Pasts: the beginning of a block has been looked for since it took its blocks
  // Scheduler: whose turn it is.
  bool admitted = false;  // has run before (it may wait again after preemption)
  bool preempted = false;
  int n_preempted = 0;                   // times
  SentBack sent_back = SentBack::never;  // the last time
  bool gave_way = false;                 // was sent back for another's turn, once or more
  bool in_queue = false;                 // has a place there, until its first step (queue_shares.h)
  Tenant* tenant = nullptr;              // while it is here
  int place = 0;                         // among those that run: who stands last gives way first
  int n_ahead = 0;                       // of its own tenant: those that came before it and are here
  int64_t ahead_plan = 0;                // number of the plan before which that number became what it is
  int64_t moved_plan = 0;   // number of the plan that last granted it something or let it wait for such a one
  int64_t stream_turn = 0;  // number of its last turn to stream, or of when it came to those that do; 0: not yet
  bool pauses = false;      // of this plan: others have their turn
  int n_hit = 0;            // prompt tokens that the tree has, as of plan number probed_plan; a policy's hint
  int64_t probed_plan = 0;  // 0: never looked up
  int64_t started_ns = 0;
  int64_t first_token_ns = -1;  // -1: none yet

  // Leaders: another that computes the same past first. Until that has n_shared tokens this one waits.
  struct Follows {
    SeqId leader = 0;  // 0: none
    int n_shared = 0;
    int n_copied = 0;  // tokens of its first block that is not indexed: a copy of another's
  } follows;

  // Loads: what a tier brings of its past. Until that is here it waits; null: nothing.
  std::unique_ptr<Load> load;
  bool loaded = false;  // just now

  // Growth: tokens of it that were lost for want of blocks and have not been found again, while it waits.
  int64_t n_at_stake = 0;
  // Scheduler: blocks that come free with it, as counted when its table had so many.
  struct Own {
    size_t n_table = 0;
    int n_blocks = 0;
  } own;

  // Swaps: what it held when it was preempted. Null: nothing, or the tree has it.
  std::unique_ptr<KvImage> swapped;
  int n_restored = 0;  // tokens that came back that way and are not indexed yet

  // Scheduler: which row of output of a step the last token was drawn from, which of its rows are part of its past, and
  // the number of its plan.
  struct Tapped {
    int row = -1;
    int first = 0, n = 0;  // rows; the last n_branch of them lie from `branch` on
    int branch = 0, n_branch = 0;
    int64_t plan = 0;
  } tapped;

  // StepPass: what is told and taken of the prompt's own rows.
  struct OfPrompt {
    int n_scored = 1;  // leading tokens whose logprob was told, where they are asked for; the first has none
    int n_pooled = 0;  // leading tokens whose hidden state was taken in
    std::vector<double> pooled;
    int n_told = -1;  // how far its sink knows it to be
  } of_prompt;
  int n_checked = 0;          // rows of output of this step that its rules have followed
  bool drew_stop_id = false;  // which ended it; `tokens` does not have it
  std::string fault;          // what the request's own rules threw: it ends the sequence at commit

  // Accounts.
  struct Account {
    int n_ever_computed = 0;  // the most that n_computed ever was: below it a row is a recomputation
    int n_cached = 0;         // prompt tokens found in the tree at first admission
    int n_disk = 0;           // of these: that were brought from disk
    int n_remote = 0;         // of these: that were brought from the remote store
    int n_dropped = 0;        // as Usage has it
    int n_pinned = 0;         // as Usage has it
    Cost cost;
  } account;

  // Calls `tell` with the sink. One that throws all the same breaks its promise: its own sequence ends with an error.
  template <class Tell>
  void tell_sink(Tell&& tell) {
    try {
      tell(*sink);
    } catch (const std::bad_alloc&) {
      fault = kNoMemory;
    } catch (const std::exception&) {
      fault = "its sink threw";  // short enough to need no memory
    }
  }
  // Logits of prompt tokens are still wanted: cached rows have none, so nothing may be matched until then.
  bool wants_scores() const { return request.sampling.n_prompt_logprobs >= 0 && of_prompt.n_scored < n_prompt; }
  bool wants_pooling() const { return request.pool != Pool::none && of_prompt.n_pooled < n_prompt; }
  // Cached rows have no hidden state either; the last row of a prompt is never taken from the cache.
  bool wants_every_row() const { return wants_scores() || (request.pool != Pool::last && wants_pooling()); }
  bool may_match() const { return !wants_every_row() && (request.match_prefix || admitted); }
  int n_pending() const { return static_cast<int>(tokens.size() + draft.size()) - n_computed; }
  // Of them those that a step may compute: what comes behind a prompt with a budget does not see what that drops.
  int n_grantable() const {
    const bool votes = budget.bounds() && n_computed < n_prompt;
    return votes ? std::min(n_pending(), n_prompt - n_computed) : n_pending();
  }
  // Its prompt is computed, and what its budget leaves no room for is still there.
  bool must_drop() const { return budget.bounds() && kv.n_dropped == 0 && n_computed >= n_prompt; }
  // Leading tokens that may be found instead of computed: never the last, never rows that vote.
  int n_findable() const {
    const auto n = static_cast<int>(tokens.size()) - 1;
    return budget.bounds() ? std::min(n, budget.first_voting()) : n;
  }
  int n_generated() const { return static_cast<int>(tokens.size()) - n_prompt; }
  // Usage::n_generated: a stop id was sampled as any other token.
  int n_sampled() const { return n_generated() + (drew_stop_id ? 1 : 0); }
};

}  // namespace quire
