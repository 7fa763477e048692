// The rows of a step whose own results somebody wants, beside the answers: tokens of prompts that are scored, hidden
// states that are pooled. Found in one walk over the plan, computed a few rows at a time. Engine thread.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "model/model.h"

namespace quire {

struct PromptRow {
  Sequence* seq;
  int32_t row;   // of the step
  int position;  // of the row's token
};

struct PromptRows {
  std::vector<PromptRow> scored;  // the next token of the prompt is to be scored by this row's logits
  std::vector<PromptRow> pooled;  // this row's hidden state is wanted

  // Of the plan's grants; before the sequences move on.
  void find(const Plan& plan);
};

// f(rows, pass) for at most `most` of the rows at a time, the pass's batch having just these as its output: never a
// matrix of prompt × vocabulary. What f takes of the arena is given back behind it.
template <class F>
void in_portions(std::span<const PromptRow> rows, int most, const Pass& pass, const F& f) {
  while (!rows.empty()) {
    const auto portion = rows.first(std::min(rows.size(), static_cast<size_t>(most)));
    const auto mark = pass.arena->mark();
    Batch batch = *pass.batch;
    batch.out_rows = pass.arena->alloc(DType::i32, {static_cast<int64_t>(portion.size())});
    pass.ops->finish();
    for (size_t i = 0; i < portion.size(); ++i) batch.out_rows.ptr<int32_t>()[i] = portion[i].row;
    Pass of_portion = pass;
    of_portion.batch = &batch;
    of_portion.taps = {};  // these are of the step's own rows of output
    f(portion, of_portion);
    pass.arena->release(mark);
    rows = rows.subspan(portion.size());
  }
}

}  // namespace quire
