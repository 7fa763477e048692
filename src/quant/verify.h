// Whether a tensor's numbers are numbers: every block is decoded, so a scale that is NaN or infinite shows in all of
// its numbers. Rows are read in parallel.
#pragma once
#include "quant/weight_format.h"

namespace quire {

struct BadNumbers {
  int64_t count = 0;              // that are NaN or infinite
  int64_t row = -1, column = -1;  // of the first
  float value = 0;                // the first itself
};

BadNumbers find_bad_numbers(const HostWeight& weight, int n_threads);

}  // namespace quire
