// Rows of activations quantised for products. The memory is kept from op to op, so that a steady state allocates
// nothing. Owner: the backend's caller; workers write rows and groups of their own.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/tables.h"
#include "quant/weight_format.h"

namespace quire {

class QuantBuffer {
 public:
  // Room for n_rows rows of n_in numbers; what was there before is lost.
  QuantRows rows(int64_t n_rows, int64_t n_in) {
    const int64_t n_groups = n_in / kPanelDepth;
    const auto n = static_cast<size_t>(n_rows * n_groups);
    if (scales_.size() < n) {
      quants_.resize(n * kPanelDepth);
      scales_.resize(n);
      sums_.resize(n);
      half_sums_.resize(2 * n);
      scaled_sums_.resize(n);
    }
    return {.q = quants_.data(),
            .scale = scales_.data(),
            .sum = sums_.data(),
            .half_sum = half_sums_.data(),
            .scaled_sum = scaled_sums_.data(),
            .n_groups = n_groups};
  }

 private:
  std::vector<int8_t> quants_;
  std::vector<float> scales_;
  std::vector<int32_t> sums_, half_sums_;
  std::vector<float> scaled_sums_;
};

// Where columns [begin, begin + n) of row i lie, as a row of their own. REQUIRES whole groups.
inline QuantRows quant_columns(QuantRows rows, int64_t i, int64_t begin, int64_t n) {
  const int64_t n_groups = rows.n_groups;
  rows.n_groups = 1;  // so that from() counts groups
  QuantRows out = rows.from(i * n_groups + begin / kPanelDepth);
  out.n_groups = n / kPanelDepth;
  return out;
}

}  // namespace quire
