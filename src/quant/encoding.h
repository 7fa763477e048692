// Encoding beyond WeightFormat::encode: with columns that differ in importance, and quickly.
#pragma once
#include <cstddef>

#include "quant/weight_format.h"

namespace quire {

struct Encoding {
  const float* importance = nullptr;  // of each number: what the square of its error counts, > 0; null: all the same
  bool quick = false;                 // few candidates, for where somebody waits
};

// Writes one block of the format. Formats without a search (float formats, q8_0, mxfp4) heed neither. Any thread.
using Encoder = void (*)(const float* in, std::byte* block, const Encoding& how);
Encoder find_encoder(const WeightFormat& format);

}  // namespace quire
