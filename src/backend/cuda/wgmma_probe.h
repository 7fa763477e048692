// Whether products of many rows may go by wgmma on the device that there is.
#pragma once
#include <string>

#include "backend/cuda/runtime.h"

namespace quire::cuda {

// Multiplies numbers of every kind (kernels/mma_tiles.cuh) by mma and by both tiles of wgmma, and compares all bits: a
// row has to have the same ones whatever it is computed beside. Empty: they are equal. Else why wgmma is not taken, for
// people. REQUIRES nothing under way, and a runtime that is well; it is so afterwards.
std::string why_no_wgmma(Runtime& runtime);

}  // namespace quire::cuda
