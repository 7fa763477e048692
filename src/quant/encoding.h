// Encoding beyond WeightFormat::encode: with columns that differ in importance, and quickly.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "quant/weight_format.h"

namespace quire {

struct Encoding {
  const float* importance = nullptr;  // of each number: what the square of its error counts, > 0; null: all the same
  bool quick = false;                 // few candidates, for where somebody waits
};

// Writes one block of the format. Formats without a search (float formats, q8_0, mxfp4, nvfp4) heed neither. Any
// thread.
using Encoder = void (*)(const float* in, std::byte* block, const Encoding& how);
// The fastest that this CPU can run. A quick search has too few candidates to fill wide registers with.
Encoder find_encoder(const WeightFormat& format, bool quick);

// The encoders as compiled for one instruction set, in the order of weight_formats(); null: the first set's. All sets
// write the same bytes.
struct EncoderSet {
  std::string_view isa;
  std::span<const Encoder> encoders;
  bool runs_here() const;
};
// Each later one is faster; the first runs everywhere and lacks nothing.
std::span<const EncoderSet> encoder_sets();

}  // namespace quire
