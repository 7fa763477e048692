#include "engine/row_params.h"

#include <exception>
#include <new>

#include "engine/answer.h"
#include "engine/guesses.h"

namespace quire {

std::span<const SampleParams> RowParams::make(const Plan& plan) {
  const auto n = static_cast<size_t>(plan.n_out);
  if (edits_.size() < n) edits_.resize(n);
  params_.clear();
  params_.reserve(n);
  for (const Grant& grant : plan.grants) {
    if (grant.n_out > 0) add_rows(grant);
  }
  return params_;
}

// A rule is its request's own code: what it throws ends that request and nobody else's. That holds for the token that
// is due; whether a guess comes true is not known yet, so where the rules cannot follow one, the rows behind do not
// count.
void RowParams::add_rows(const Grant& grant) {
  Sequence& seq = *grant.seq;
  const size_t begin = params_.size();
  int n_guessed = 0;
  try {
    add_row(seq, 0);
    while (n_guessed < grant.n_drafted) {
      accept_guess(seq, seq.draft[static_cast<size_t>(n_guessed)]);
      add_row(seq, ++n_guessed);
    }
  } catch (const std::bad_alloc&) {
    if (params_.size() == begin) seq.fault = kNoMemory;
  } catch (const std::exception& error) {
    if (params_.size() == begin) seq.fault = failure({error.what()});
  }
  seq.n_checked = static_cast<int>(params_.size() - begin);
  if (n_guessed > 0) {
    for (const auto& rule : seq.request.rules) rule->rollback(n_guessed);
  }
  params_.resize(begin + static_cast<size_t>(grant.n_out));
}

void RowParams::add_row(Sequence& seq, int n_guessed) {
  LogitEdits& edits = edits_[params_.size()];
  edits.bitmask.clear();
  const SharedList<Edit>& bias = seq.request.sampling.logit_bias;
  edits.sparse.assign(bias.begin(), bias.end());
  for (const auto& rule : seq.request.rules) rule->edits(edits);
  const int64_t position = static_cast<int64_t>(seq.tokens.size()) + n_guessed;
  params_.push_back(sample_params(seq.request.sampling, position, &edits));
  for (const auto& rule : seq.request.rules) rule->shape(params_.back());
}

}  // namespace quire
