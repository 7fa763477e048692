#include "spec/drawn_alike.h"

#include <algorithm>

namespace quire {

void put_biases(const Draft& draft, LogitEdits& out) {
  out.sparse.clear();
  if (draft.sampling == nullptr) return;
  out.sparse.assign(draft.sampling->logit_bias.begin(), draft.sampling->logit_bias.end());
}

SampleParams draw_alike(const Draft& draft, const LogitEdits& edits) {
  static const SamplingParams kGreedy = [] {
    SamplingParams out;
    out.temperature = 0;
    return out;
  }();
  const SamplingParams& wanted = draft.sampling == nullptr ? kGreedy : *draft.sampling;
  const auto position = draft.n_before + static_cast<int64_t>(draft.context.size() + draft.tokens.size());
  SampleParams out = sample_params(wanted, position, &edits);
  out.logprob = false;
  out.n_top = 0;
  return out;
}

SampleParams draw_likeliest(const LogitEdits* edits) {
  SampleParams out;
  out.edits = edits;
  out.logprob = false;
  return out;
}

SampleParams beside(SampleParams params, int n_side) {
  if (n_side == 0) return params;
  params.logprob = true;
  params.n_top = n_side + 1;
  return params;
}

void add_side(std::span<const Token> likely, Draft& draft) {
  const auto n_chain = static_cast<int>(draft.tokens.size());
  if (n_chain == 0) return;
  const Token first = draft.tokens.front();
  int n = 0;
  for (const Token id : likely) {
    if (id == first) continue;
    if (n++ == draft.max_side) break;
    draft.tokens.push_back(id);
  }
  if (static_cast<int>(draft.tokens.size()) == n_chain) return;
  for (int i = 0; i < n_chain; ++i) draft.parents.push_back(i - 1);
  draft.parents.resize(draft.tokens.size(), -1);
}

bool take_guess(Token token, Draft& draft) {
  draft.tokens.push_back(token);
  const bool ends = std::find(draft.ends.begin(), draft.ends.end(), token) != draft.ends.end();
  return !ends && static_cast<int>(draft.tokens.size()) < draft.max_tokens;
}

bool take_drawn(const Sampled& sampled, int n_vocab, Draft& draft) {
  if (!sampled.ok || sampled.token >= n_vocab) return false;
  return take_guess(sampled.token, draft);
}

}  // namespace quire
