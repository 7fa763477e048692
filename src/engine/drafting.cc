#include "engine/drafting.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>

#include "base/log.h"
#include "engine/guesses.h"
#include "sample/rules.h"

namespace quire {
namespace {

constexpr int64_t kUsuallyBehind = 4;  // tokens that a proposer takes in beside the due one, as guesses leave them

bool needs_samples(const Request& request) {
  return std::any_of(request.rules.begin(), request.rules.end(),
                     [](const auto& rule) { return rule->needs_samples(); });
}

// Tokens of which each follows the one before.
size_t chain_of(const Draft& draft) {
  if (draft.parents.empty()) return draft.tokens.size();
  size_t n = 0;
  while (n < draft.parents.size() && draft.parents[n] == static_cast<int32_t>(n) - 1) ++n;
  return n;
}

// Of a tree whose chain has n_chain tokens, what leads to token `leaf` behind the chain, into an empty `out`.
void put_way(const Draft& draft, size_t n_chain, size_t leaf, Branch& out) {
  auto at = static_cast<int32_t>(leaf);
  for (; at >= static_cast<int32_t>(n_chain); at = draft.parents[static_cast<size_t>(at)])
    out.tokens.push_back(draft.tokens[static_cast<size_t>(at)]);
  std::ranges::reverse(out.tokens);
  out.n_shared = at + 1;
}

// How many of the branch's own tokens the sequence's rules can follow.
size_t n_followed(Sequence& seq, const Branch& branch) {
  std::vector<Token> way(seq.draft.begin(), seq.draft.begin() + branch.n_shared);
  way.insert(way.end(), branch.tokens.begin(), branch.tokens.end());
  const size_t n = n_followed(seq, way), n_shared = static_cast<size_t>(branch.n_shared);
  return n > n_shared ? n - n_shared : 0;
}

}  // namespace

// Tokens that it may write still.
int Drafting::left_of(const Sequence& seq) const {
  return std::min(seq.request.max_tokens - seq.n_generated(), limits_.n_ctx - static_cast<int>(seq.tokens.size()));
}

// With n drafted tokens a step adds n + 1 at most. Rows behind a prompt do not see what its budget drops.
int Drafting::most_for(const Sequence& seq) const {
  if (seq.budget.bounds() && seq.kv.n_dropped == 0) return 0;
  const int wanted = seq.request.max_draft < 0 ? limits_.max_draft : std::min(seq.request.max_draft, limits_.max_draft);
  return std::min(wanted, left_of(seq) - 1);
}

template <class F>
bool Drafting::ask(const F& f) {
  try {
    f(*proposer_);
    return true;
  } catch (const std::exception& error) {
    if (accounts_.counters().n_bad_drafts++ == 0) log_warn(failure({"the proposer failed: ", error.what()}));
    return false;
  }
}

// So many drafts take no more memory, from being asked for until they are verified. False: there is none.
bool Drafting::reserve(size_t n) {
  try {
    if (drafts_.size() < n) drafts_.resize(n);
    streams_.reserve(n);
    seqs_.reserve(n);
    verified_.reserve(n);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// How much each stream is asked for. REQUIRES reserve().
void Drafting::choose(std::span<const Grant> streams, int room) {
  int64_t n_keys = 0;
  for (const Grant& grant : streams) {
    Sequence& seq = *grant.seq;
    n_keys += seq.n_computed + 1;
    const int wanted = std::min(most_for(seq), room);
    if (wanted < 1 || needs_samples(seq.request)) continue;
    const Draft& draft = ask_for(seq, wanted);
    int most = 0;
    if (!ask([&](Proposer& p) { most = std::min(p.most(draft), wanted); }) || most < 1) continue;
    streams_.push_back({.seq = seq.id,
                        .most = most,
                        .depth = most,
                        .n_tokens = static_cast<int>(seq.tokens.size()),
                        .n_left = left_of(seq),
                        .side = limits_.max_side});
    seqs_.push_back(&seq);
  }
  if (!controller_ || (streams_.empty() && !has_chosen_)) return;
  has_chosen_ = true;
  try {
    controller_->choose(streams_, static_cast<int>(streams.size()), n_keys);
    chose_ = true;
  } catch (const std::bad_alloc&) {
    streams_.clear();  // nobody guesses in this step
  }
}

// What is asked for the stream that comes next.
Draft& Drafting::ask_for(const Sequence& seq, int n) {
  Draft& draft = drafts_[streams_.size()];
  draft.seq = seq.id;
  draft.context = std::span<const Token>(seq.tokens).subspan(static_cast<size_t>(seq.n_virtual));
  draft.n_prompt = seq.n_prompt - seq.n_virtual;
  draft.n_before = seq.n_virtual;
  draft.max_tokens = n;
  draft.sampling = &seq.request.sampling;
  draft.ends = seq.request.stop_ids;
  draft.salt = seq.request.cache_salt;
  draft.n_public = seq.request.n_public;
  draft.tapped = seq.tapped.row;
  draft.first_row = seq.tapped.first;
  draft.n_rows = seq.tapped.n;
  draft.branch_row = seq.tapped.branch;
  draft.n_branch = seq.tapped.n_branch;
  draft.kv = nullptr;
  draft.tokens.clear();
  draft.parents.clear();
  draft.probs.clear();
  draft.n_sure = draft.n_behind = draft.by = 0;
  return draft;
}

// Those of whom some tokens are wanted, in front of the others.
std::span<Draft> Drafting::asked(const RoomAhead& ahead) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    int depth = streams_[i].depth;
    if (depth > 0 && writes_ahead()) {
      depth = ahead(*seqs_[i], depth);
      drafts_[i].kv = &seqs_[i]->kv;
    }
    if (depth == 0) continue;
    seqs_[n_asked_] = seqs_[i];
    std::swap(drafts_[n_asked_], drafts_[i]);
    drafts_[n_asked_].max_side = streams_[i].side;
    drafts_[n_asked_++].max_tokens = depth;
  }
  return std::span(drafts_).first(n_asked_);
}

void Drafting::propose(std::span<const Grant> streams, int room, const RoomAhead& ahead) {
  n_asked_ = 0;
  n_behind_ = 0;
  n_drafted_ = n_accepted_ = 0;
  could_ = false;
  chose_ = false;
  streams_.clear();
  seqs_.clear();
  if (!reserve(streams.size())) return;
  choose(streams, room);
  could_ = !streams_.empty();
  const std::span<Draft> drafts = asked(ahead);
  if (drafts.empty() || !ask([&](Proposer& p) { p.propose(drafts); })) return;
  for (size_t i = 0; i < n_asked_; ++i) {
    const Draft& draft = drafts_[i];
    n_behind_ += draft.n_behind;
    // Who still takes in what came before has not been asked yet.
    if (!is_true(draft)) {
      if (room > 0) ++accounts_.counters().n_bad_drafts;
      continue;
    }
    if (controller_ && (!draft.tokens.empty() || draft.n_behind <= kUsuallyBehind))
      controller_->asked(draft.seq, draft.max_tokens, static_cast<int>(chain_of(draft)));
    if (room > 0) room -= take(draft, *seqs_[i], room);
  }
  for (size_t i = 0; i < n_asked_ && room > 0; ++i) room -= take_branches(drafts_[i], *seqs_[i], room);
  for (size_t i = 0; i < n_asked_ && recorder_ != nullptr; ++i) record(*seqs_[i]);
}

// Puts what was drafted into its sequence, `room` tokens at most; how many that are. Where there is no memory for them
// there is no draft. REQUIRES is_true(draft).
int Drafting::take(const Draft& draft, Sequence& seq, int room) {
  auto n = std::min(chain_of(draft), static_cast<size_t>(room));
  if (has_grammar(seq.request.sampling)) n = n_followed(seq, std::span(draft.tokens).first(n));
  try {
    seq.draft.assign(draft.tokens.begin(), draft.tokens.begin() + static_cast<std::ptrdiff_t>(n));
  } catch (const std::bad_alloc&) {
    ++accounts_.counters().n_bad_drafts;
    return 0;
  }
  seq.draft_by = draft.by;
  return static_cast<int>(n);
}

// What a tree has beside the draft, as far as that was taken: to every token that nothing follows its own branch, of
// `room` tokens at most in all. How many these are.
int Drafting::take_branches(const Draft& draft, Sequence& seq, int room) {
  seq.branches.clear();
  if (draft.parents.empty() || seq.draft.empty()) return 0;
  const size_t n_chain = chain_of(draft);
  int n = 0;
  room = std::min(room, draft.max_side);
  try {
    for (size_t i = n_chain; i < draft.tokens.size() && n < room; ++i) {
      if (std::ranges::find(draft.parents, static_cast<int32_t>(i)) != draft.parents.end()) continue;
      Branch& branch = seq.branches.add();
      put_way(draft, n_chain, i, branch);
      if (branch.n_shared < std::ssize(seq.draft)) {
        const auto most = static_cast<size_t>(std::min(room - n, draft.max_tokens - branch.n_shared));
        if (branch.tokens.size() > most) branch.tokens.resize(most);
        if (has_grammar(seq.request.sampling)) branch.tokens.resize(n_followed(seq, branch));
        n += static_cast<int>(branch.tokens.size());
      } else {
        branch.tokens.clear();
      }
      if (branch.tokens.empty()) seq.branches.drop_last();
    }
  } catch (const std::bad_alloc&) {
    seq.branches.clear();
    return 0;
  }
  return n;
}

// As the tree that it is. Without memory for it the branches are not verified either.
void Drafting::record(const Sequence& seq) {
  if (seq.draft.empty()) return;
  tree_.assign(seq.draft.begin(), seq.draft.end());
  parents_.clear();
  if (!seq.branches.empty()) {
    for (int i = 0; i < std::ssize(seq.draft); ++i) parents_.push_back(i - 1);
  }
  for (const Branch& branch : seq.branches) {
    int parent = branch.n_shared - 1;
    for (const Token id : branch.tokens) {
      parents_.push_back(std::exchange(parent, static_cast<int32_t>(tree_.size())));
      tree_.push_back(id);
    }
  }
  recorder_->record({EngineInput::Kind::draft, seq.id, 0, nullptr, tree_, parents_});
}

bool Drafting::is_true(const Draft& draft) const {
  const size_t n = draft.tokens.size();
  if (draft.by < 0 || static_cast<size_t>(draft.by) >= kMostProposers) return false;
  const auto most =
      static_cast<size_t>(draft.max_tokens) + static_cast<size_t>(draft.parents.empty() ? 0 : draft.max_side);
  if (n > most || draft.n_sure < 0 || static_cast<size_t>(draft.n_sure) > n) return false;
  if (!draft.parents.empty() && draft.parents.size() != n) return false;
  for (size_t i = 0; i < draft.parents.size(); ++i) {
    if (draft.parents[i] < -1 || draft.parents[i] >= static_cast<int32_t>(i)) return false;
  }
  if (chain_of(draft) > static_cast<size_t>(draft.max_tokens)) return false;
  if (!draft.probs.empty() && draft.probs.size() != n) return false;
  return std::all_of(draft.tokens.begin(), draft.tokens.end(),
                     [&](Token id) { return id >= 0 && id < limits_.n_vocab; });
}

void Drafting::verified(const Grant& grant, const Taken& taken) {
  if (grant.n_drafted == 0) return;
  accounts_.verified(grant, taken.n_accepted);
  n_drafted_ += grant.n_drafted;
  Verified what{.seq = grant.seq->id, .n_drafted = grant.n_drafted, .n_accepted = taken.n_accepted};
  const bool branched = taken.way != kDraft;
  what.n_right = branched ? grant.seq->branches[taken.way].n_shared : taken.n_accepted;
  what.n_side = grant.n_side;
  n_accepted_ += what.n_right;  // as n_drafted_ counts them: without branches
  for (int i = 0; grant.n_side > 0 && i < grant.seq->branches.size(); ++i) {
    if (grant.seq->branches[i].n_shared > 0) continue;
    if (i == taken.way) what.came = what.n_first;
    ++what.n_first;
  }
  verified_.push_back(what);
  if (controller_) controller_->verified(what);
}

void Drafting::tell() {
  if (!verified_.empty()) ask([&](Proposer& p) { p.observe(verified_); });
  verified_.clear();
}

// Where guesses do not do what they are there for.
void Drafting::warn() {
  if (!std::exchange(could_, false) || (controller_ && (!chose_ || controller_->trying()))) return;
  if (const std::string line = alarm_.step(n_drafted_, n_accepted_); !line.empty()) log_warn(line);
  accounts_.counters().n_few_accepted = alarm_.n_few();
  accounts_.counters().n_never_drafted = alarm_.n_never();
}

// A step beside prompts, or one in which the proposer had to catch up, says nothing of what guesses take.
void Drafting::end_step(const Plan& plan, int64_t ns) {
  tell();
  warn();
  if (!chose_) return;
  controller_->observe({.n_drafted = plan.n_drafted,
                        .n_new = static_cast<int>(plan.grants.size()) + n_accepted_,
                        .ns = ns,
                        .alone = plan.shape.n_prefill == 0,
                        .caught_up = n_behind_ > kUsuallyBehind * static_cast<int64_t>(n_asked_)});
  accounts_.counters().draft_saved_ns = controller_->saved_ns();
  accounts_.counters().draft_lost_ns = controller_->lost_ns();
  chose_ = false;
}

void Drafting::forget(SeqId id) {
  tell();
  if (controller_) controller_->forget(id);
  ask([&](Proposer& p) { p.forget(id); });
}

}  // namespace quire
