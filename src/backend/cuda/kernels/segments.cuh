// Sums over eight segments of K, in blocks of 32 (docs/numerics.md, "Linear").
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

// Of 8 numbers of a thread. Segments are joined as ((0+1)+(2+3))+((4+5)+(6+7)) as they end; the result is `four`.
template <class Arithmetic>
struct SegmentSums {
  float now[8], one[8], two[8], four[8];
  int segment, end;  // the segment ends before this block
  QR_DEVICE void begin(int n_blocks) {
    for (int i = 0; i < 8; ++i) now[i] = one[i] = two[i] = four[i] = 0.0F;
    segment = 0;
    end = static_cast<int>(int64_t{n_blocks} / 8);
  }
  QR_DEVICE void close(int n_blocks) {
    for (int i = 0; i < 8; ++i) {
      float v = now[i];
      now[i] = 0.0F;
      if (segment % 2 == 1) v = Arithmetic().add(one[i], v);
      if (segment % 4 == 3) v = Arithmetic().add(two[i], v);
      if (segment == 7) v = Arithmetic().add(four[i], v);
      if (segment % 2 == 0) one[i] = v;
      if (segment % 4 == 1) two[i] = v;
      if (segment == 3 || segment == 7) four[i] = v;
    }
    ++segment;
    end = static_cast<int>(int64_t{n_blocks} * (segment + 1) / 8);
  }
};

}  // namespace quire::cuda
