#include "engine/prompt_rows.h"

namespace quire {
namespace {

bool wants_score(const Sequence& seq, int position) {
  return seq.wants_scores() && position + 1 >= seq.of_prompt.n_scored && position + 1 < seq.n_prompt;
}

bool wants_hidden(const Sequence& seq, int position) {
  if (!seq.wants_pooling() || position >= seq.n_prompt) return false;
  return seq.request.pool == Pool::last ? position == seq.n_prompt - 1 : position >= seq.of_prompt.n_pooled;
}

}  // namespace

void PromptRows::find(const Plan& plan) {
  scored.clear();
  pooled.clear();
  int32_t first = 0;
  for (const Grant& grant : plan.grants) {
    Sequence& seq = *grant.seq;
    const bool wanted = seq.wants_scores() || seq.wants_pooling();
    for (int i = 0; wanted && i < grant.n_tokens; ++i) {
      const int position = seq.n_computed + i;
      if (wants_score(seq, position)) scored.push_back({&seq, first + i, position});
      if (wants_hidden(seq, position)) pooled.push_back({&seq, first + i, position});
    }
    first += grant.n_tokens;
  }
}

}  // namespace quire
