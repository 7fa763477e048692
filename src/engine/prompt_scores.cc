#include "engine/prompt_scores.h"

#include <limits>
#include <utility>

#include "ops/sample_row.h"

namespace quire {
namespace {

Token scored_token(const PromptRow& row) { return row.seq->tokens[static_cast<size_t>(row.position) + 1]; }

}  // namespace

void PromptScores::take(
    std::span<const PromptRow> rows, const Tensor& x, const Pass& pass, const Model& model, int most) {
  if (scored_.size() < rows.size()) scored_.resize(rows.size());
  size_t at = 0;
  in_portions(rows, most, pass, [&](std::span<const PromptRow> portion, const Pass& of_portion) {
    params_.clear();
    for (const PromptRow& row : portion) {
      SampleParams& params = params_.emplace_back();
      params.forced = scored_token(row);
      params.n_top = row.seq->request.sampling.n_prompt_logprobs;
    }
    const Tensor logits = model.head(x, of_portion);
    pass.ops->sample(std::span(scored_).subspan(at, portion.size()), logits, params_);
    at += portion.size();
  });
}

void PromptScores::emit(std::span<const PromptRow> rows) {
  event_.prompt = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    const PromptRow& row = rows[i];
    if (scored_[i].token == kNoMemoryToken) row.seq->fault = kNoMemory;
    if (!row.seq->fault.empty()) continue;
    event_.id = scored_token(row);
    event_.logprob = scored_[i].ok ? scored_[i].logprob : -std::numeric_limits<float>::infinity();
    std::swap(event_.top, scored_[i].top);
    row.seq->of_prompt.n_scored = row.position + 2;
    row.seq->tell_sink([&](EventSink& sink) { sink.on_token(row.seq->id, event_); });
  }
}

}  // namespace quire
