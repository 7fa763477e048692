// Hidden states instead of an answer: of the prompt's last token, or the mean over all of it. Rows are added in the
// order of their positions, in double, so that the result does not depend on how the prompt was cut. One engine's;
// engine thread.
#pragma once
#include <span>
#include <vector>

#include "engine/plan.h"
#include "model/model.h"

namespace quire {

class Pooling {
 public:
  // Takes in the step's rows of sequences that want it; `x` as layers() gave it. Asks the model for the hidden states
  // of at most `most` rows at a time. A model that gives none leaves everything as it is.
  void take(const Plan& plan, const Tensor& x, const Pass& pass, const Model& model, int most);
  // Tells the sinks of those whose prompt is now complete.
  void emit();

 private:
  struct Row {
    Sequence* seq;
    int32_t row;  // of the step
    int position;
  };
  std::vector<Row> rows_;
  std::vector<float> out_;
};

}  // namespace quire
