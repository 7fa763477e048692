// Whether products of many rows may go by wgmma on the device that there is.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/runtime.h"

namespace quire::cuda {

// A product of numbers of every kind of kernels/mma_tiles.cuh, each kind with each other. Its tiles go round the rings
// of both kernels more than once, and every lane of a block has sums of its own.
struct WgmmaProbe {
  static constexpr int kRows = 256, kOutputs = 128, kDepth = 448;
  uint64_t seed = 1;
  int every = 8;  // of so many sums of 16 products in an output one has numbers, the others zeros
  uint16_t weight(int output, int k) const;  // bits of a BF16
  uint16_t row(int row, int k) const;

  // [kRows][kOutputs], by mma and by both tiles of wgmma.
  struct Sums {
    std::vector<float> mma, some, many;
  };
  // REQUIRES nothing under way, a runtime that is well, and a device that has wgmma. It is well afterwards.
  Result<Sums> sums(Runtime& runtime) const;
};

// Empty: this device's wgmma gives such a product the bits of mma, as it has to, so that a row has the same ones
// whatever it is computed beside. Else why wgmma is not taken, for people. REQUIRES as WgmmaProbe::sums.
std::string why_no_wgmma(Runtime& runtime);

}  // namespace quire::cuda
