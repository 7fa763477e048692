// Logprobs of the prompt's own tokens, where a request asks for them: each under the tokens before it. One engine's;
// engine thread.
#pragma once
#include <span>
#include <vector>

#include "engine/prompt_rows.h"

namespace quire {

class PromptScores {
 public:
  // For so many rows of a step, so many of them at a time.
  void reserve(size_t n_rows, size_t most) {
    params_.reserve(most);
    scored_.resize(n_rows);
  }
  // Scores the tokens behind `rows`; `x` as layers() gave it, `most` rows at a time. `rows` stay until emit().
  void take(std::span<const PromptRow> rows, const Tensor& x, const Pass& pass, const Model& model, int most);
  // Tells the sinks, in order of position. Whoever there was no memory for has a fault.
  void emit(std::span<const PromptRow> rows);

 private:
  std::vector<SampleParams> params_;
  std::vector<Sampled> scored_;
  TokenEvent event_;
};

}  // namespace quire
