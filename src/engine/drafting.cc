#include "engine/drafting.h"

#include <algorithm>
#include <exception>
#include <new>

#include "base/log.h"
#include "engine/guesses.h"
#include "sample/rules.h"

namespace quire {
namespace {

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

}  // namespace

// With n drafted tokens a step adds n + 1 at most.
int Drafting::most_for(const Sequence& seq) const {
  const int left =
      std::min(seq.request.max_tokens - seq.n_generated(), limits_.n_ctx - static_cast<int>(seq.tokens.size()));
  return std::min(limits_.max_draft, left - 1);
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
    seqs_.reserve(n);
    verified_.reserve(n);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Drafting::propose(std::span<const Grant> streams, int room) {
  n_asked_ = 0;
  seqs_.clear();
  if (!reserve(streams.size())) return;
  for (const Grant& grant : streams) {
    Sequence& seq = *grant.seq;
    const int most = std::min(most_for(seq), room);
    if (most < 1 || needs_samples(seq.request)) continue;
    Draft& draft = drafts_[n_asked_++];
    draft.seq = seq.id;
    draft.context = seq.tokens;
    draft.n_prompt = seq.n_prompt;
    draft.max_tokens = most;
    draft.tokens.clear();
    draft.parents.clear();
    draft.probs.clear();
    draft.n_sure = 0;
    seqs_.push_back(&seq);
  }
  const auto asked = std::span(drafts_).first(n_asked_);
  if (asked.empty() || !ask([&](Proposer& p) { p.propose(asked); })) return;
  for (size_t i = 0; i < n_asked_ && room > 0; ++i) {
    const Draft& draft = drafts_[i];
    auto n = std::min(chain_of(draft), static_cast<size_t>(room));
    if (!is_true(draft)) {
      ++accounts_.counters().n_bad_drafts;
      continue;
    }
    if (has_grammar(seqs_[i]->request.sampling)) n = n_followed(*seqs_[i], std::span(draft.tokens).first(n));
    if (!take(draft, n, seqs_[i]->draft)) {
      ++accounts_.counters().n_bad_drafts;
      continue;
    }
    room -= static_cast<int>(n);
    if (recorder_ != nullptr && n > 0)
      recorder_->record({EngineInput::Kind::draft, seqs_[i]->id, 0, nullptr, seqs_[i]->draft});
  }
}

// The first n tokens; false where there is no memory for them.
bool Drafting::take(const Draft& draft, size_t n, std::vector<Token>& out) {
  try {
    out.assign(draft.tokens.begin(), draft.tokens.begin() + static_cast<std::ptrdiff_t>(n));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Drafting::is_true(const Draft& draft) const {
  const size_t n = draft.tokens.size();
  if (n > static_cast<size_t>(draft.max_tokens) || draft.n_sure < 0 || static_cast<size_t>(draft.n_sure) > n)
    return false;
  if (!draft.parents.empty() && draft.parents.size() != n) return false;
  if (!draft.probs.empty() && draft.probs.size() != n) return false;
  return std::all_of(draft.tokens.begin(), draft.tokens.end(),
                     [&](Token id) { return id >= 0 && id < limits_.n_vocab; });
}

void Drafting::verified(const Grant& grant, int n_accepted) {
  if (grant.n_drafted == 0) return;
  accounts_.verified(grant, n_accepted);
  verified_.push_back({grant.seq->id, grant.n_drafted, n_accepted});
}

void Drafting::end_step() {
  if (!verified_.empty()) ask([&](Proposer& p) { p.observe(verified_); });
  verified_.clear();
}

void Drafting::forget(SeqId id) {
  end_step();
  ask([&](Proposer& p) { p.forget(id); });
}

}  // namespace quire
