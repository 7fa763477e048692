// Mixes: files whose tensors are stored in different formats, under the names that llama.cpp gave them (q4_k_m). Most
// weights have the mix's own format; those whose rounding costs the answer most for their bytes have a better one.
// Which these are was measured (docs/decisions/032-mixes-by-measurement.md), so the formats are not llama.cpp's.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/weight_format.h"

namespace quire {

struct Mix {
  std::string_view name;
  uint32_t file_type;     // its number in general.file_type
  std::string_view base;  // the format of most weights
  std::string_view head;  // of the matrix that makes logits
  // Of attention; a matrix of queries, keys and values together goes with the output.
  std::string_view values, keys, output;
  std::string_view down;  // of the matrices back from the feed-forward units
};

// In the order of their size.
std::span<const Mix> mixes();
const Mix* find_mix(std::string_view name);  // in lower case; nullptr: there is none

// The format that the mix wants for a tensor, by its name in GGUF; whether it fits is for fitting_format(). `tied`: the
// model has no matrix for logits of its own, the embedding is it.
const WeightFormat& mix_format(const Mix& mix, std::string_view tensor, bool tied);

}  // namespace quire
