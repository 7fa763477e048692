// What tokens need of a machine by the sizes of their model: the operations and bytes that shares of its limits are
// counted in (`quire bench`, `quire doctor`, the server's metrics). Pure.
//   operations = 2 · parameters without the head · rows + 2 · parameters of the head · rows that want logits
//              + 4 · keys that the rows see · n_heads · head_dim · layers
// Of experts those that a row uses count. Masked scores, padding and what an implementation computes twice do not.
#pragma once
#include <cstdint>
#include <vector>

#include "model/model.h"

namespace quire {

// What a backend's units do at best.
struct UnitPeak {
  double int8 = 0, f32 = 0, bf16 = 0;  // operations per second of multiply-adds, by the weights: integer, float, BF16
  double fork_ns = 0;                  // one fork and join of all threads
};

struct StepNeeds {
  StepNeeds() = default;
  explicit StepNeeds(const ModelInfo& info);

  // Operations of one sequence's rows at positions [begin, end) of which n_out want logits. Row p sees the p + 1 keys
  // up to itself; in layers with a window the last `window` of them.
  double ops(int64_t begin, int64_t end, int64_t n_out) const;
  // Bytes of keys and values that these rows see, summed over the rows: what reading them one row at a time takes.
  double kv_bytes(int64_t begin, int64_t end) const;
  // Operations per second at best of the units that most of the weights are multiplied by.
  double limit(const UnitPeak& peak) const;

  double row_ops = 0, head_ops = 0;   // of a row without attention and head; of the head for a row that wants logits
  double weight_bytes = 0;            // read once by a step, however many rows it has
  bool floats = false, bf16 = false;  // most weights are multiplied as floats, and those as BF16

 private:
  struct Layers {
    int64_t window;                     // 0: none
    double ops_per_key, bytes_per_key;  // of all layers together
  };
  std::vector<Layers> layers_;
};

}  // namespace quire
