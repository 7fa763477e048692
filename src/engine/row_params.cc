#include "engine/row_params.h"

#include <exception>
#include <new>

#include "engine/answer.h"
#include "engine/guesses.h"
#include "sample/rules.h"

namespace quire {

// A mask takes microseconds where it is known and up to some milliseconds where it is not; what other rules do takes
// less than handing it out.
std::span<const SampleParams> RowParams::make(const Plan& plan, Ops& ops) {
  const auto n = static_cast<size_t>(plan.n_out);
  if (edits_.size() < n) edits_.resize(n);
  params_.assign(n, {});
  masked_.clear();
  size_t begin = 0;
  for (const Grant& grant : plan.grants) {
    if (grant.n_out == 0) continue;
    const Rows rows{&grant, begin};
    begin += static_cast<size_t>(grant.n_out);
    if (has_grammar(grant.seq->request.sampling)) {
      masked_.push_back(rows);
    } else {
      fill(rows);
    }
  }
  if (masked_.empty()) return params_;
  ops.each(std::ssize(masked_), [this](int64_t i) { fill(masked_[static_cast<size_t>(i)]); });
  return params_;
}

// A rule is its request's own code: what it throws ends that request and nobody else's. That holds for the token that
// is due; whether a guess comes true is not known yet, so where the rules cannot follow one, the rows behind do not
// count.
void RowParams::fill_chain(const Rows& rows) {
  const Grant& grant = *rows.grant;
  Sequence& seq = *grant.seq;
  int n_checked = 0, n_guessed = 0;
  try {
    fill_row(seq, rows.begin, 0);
    ++n_checked;
    while (n_guessed < grant.n_drafted) {
      accept_guess(seq, seq.draft[static_cast<size_t>(n_guessed)]);
      ++n_guessed;
      fill_row(seq, rows.begin + static_cast<size_t>(n_guessed), n_guessed);
      ++n_checked;
    }
  } catch (const std::bad_alloc&) {
    if (n_checked == 0) seq.fault = kNoMemory;
  } catch (const std::exception& error) {
    if (n_checked == 0) seq.fault = failure({error.what()});
  }
  seq.n_checked = n_checked;
  for (int i = n_checked; i < grant.n_out; ++i) params_[rows.begin + static_cast<size_t>(i)] = {};
  if (n_guessed > 0) {
    for (const auto& rule : seq.request.rules) rule->rollback(n_guessed);
  }
}

void RowParams::fill_branch(Sequence& seq, Branch& branch) {
  int n_guessed = 0;
  branch.n_checked = 0;
  try {
    for (; n_guessed < branch.n_shared; ++n_guessed) accept_guess(seq, seq.draft[static_cast<size_t>(n_guessed)]);
    for (const Token id : branch.tokens) {
      accept_guess(seq, id);
      ++n_guessed;
      fill_row(seq, static_cast<size_t>(branch.first_out) + static_cast<size_t>(branch.n_checked), n_guessed);
      ++branch.n_checked;
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the rows behind do not count
  }
  for (size_t i = static_cast<size_t>(branch.n_checked); i < branch.tokens.size(); ++i)
    params_[static_cast<size_t>(branch.first_out) + i] = {};
  if (n_guessed == 0) return;
  for (const auto& rule : seq.request.rules) rule->rollback(n_guessed);
}

void RowParams::fill(const Rows& rows) {
  fill_chain(rows);
  if (rows.grant->n_side == 0) return;
  for (Branch& branch : rows.grant->seq->branches) fill_branch(*rows.grant->seq, branch);
}

void RowParams::fill_row(Sequence& seq, size_t row, int n_guessed) {
  LogitEdits& edits = edits_[row];
  edits.bitmask.clear();
  const SharedList<Edit>& bias = seq.request.sampling.logit_bias;
  edits.sparse.assign(bias.begin(), bias.end());
  for (const auto& rule : seq.request.rules) rule->edits(edits);
  const int64_t position = static_cast<int64_t>(seq.tokens.size()) + n_guessed;
  SampleParams& params = params_[row];
  params = sample_params(seq.request.sampling, position, &edits);
  for (const auto& rule : seq.request.rules) rule->shape(params);
}

}  // namespace quire
