// Hidden states instead of an answer: of the prompt's last token, the mean over all of it, or each. Rows are added in
// the order of their positions, in double, so that the result does not depend on how the prompt was cut. One engine's;
// engine thread.
#pragma once
#include <span>
#include <vector>

#include "engine/prompt_rows.h"

namespace quire {

class Pooling {
 public:
  // Takes in the rows' hidden states; `x` as layers() gave it. Asks the model for at most `most` rows at a time. A
  // model that gives none leaves everything as it is. Whoever there is no memory for has a fault.
  static void take(std::span<const PromptRow> rows, const Tensor& x, const Pass& pass, const Model& model, int most);
  // Tells the sinks of those whose prompt is now complete.
  void emit(std::span<const PromptRow> rows);

 private:
  std::vector<float> out_;
};

}  // namespace quire
