#include "backend/cuda/sums.h"

#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {
namespace {

constexpr int64_t kLanes = 16;

bool block_max(float* out, const float* x, int64_t n) {
  bool is_good = true;
  for (int64_t begin = 0; begin < n; begin += kSampleBlock) {
    float most = -kInfinity;
    for (int64_t i = begin; i < n && i < begin + kSampleBlock; ++i) {
      is_good = is_good && x[i] < kInfinity;
      most = x[i] > most ? x[i] : most;
    }
    *out++ = most;
  }
  return is_good;
}

float exp_row(float* out, const float* x, int64_t n, float max, float factor) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    const float p = exp_of((x[i] - max) * factor);
    if (out != nullptr) out[i] = p;
    lanes[i % kLanes] += p;
  }
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace

SampleKernels sample_sums() { return {block_max, exp_row}; }

}  // namespace quire::cuda
