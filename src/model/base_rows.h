// The matrices that a model computes with, row by row and out of its file once more: backends keep weights in layouts
// of their own, and what an adapter adds may depend on the numbers that it is added to (DoRA). Opened when it is first
// needed. One thread.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"

namespace quire {

// Where a model was loaded from, and what its matrices were converted to.
struct BaseModel {
  std::string path;                       // of its file or folder
  const WeightFormat* weights = nullptr;  // LoadOptions::weights
};

class BaseRows {
 public:
  explicit BaseRows(BaseModel of) : of_(std::move(of)) {}
  // fn(r, row) for every row of the model's tensor [n_out, n_in], as decoded numbers whose columns are in order. The
  // head of a model with tied weights has its embedding's.
  // Errors name file and tensor: it is not there or has another shape, or the file was changed meanwhile.
  Status each_row(const std::string& tensor,
                  int64_t n_out,
                  int64_t n_in,
                  const std::function<void(int64_t r, std::span<const float> row)>& fn);
  // Whether these rows are floats of the file's own, F32, F16 or BF16: nothing was rounded to fewer bits. Errors: as
  // above.
  Result<bool> has_floats(const std::string& tensor, int64_t n_out, int64_t n_in);
  // The bias that goes with a tensor "x.weight", [n_out]; zeros where there is none.
  Result<std::vector<float>> bias_of(const std::string& tensor, int64_t n_out);

 private:
  Result<const ModelFile*> file();
  BaseModel of_;
  std::optional<ModelFile> file_;
};

}  // namespace quire
