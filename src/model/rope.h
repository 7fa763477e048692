// The frequencies that rotary positions turn with, for every kind of context scaling. Everything is fixed when the
// model is loaded: kinds whose reference changes frequencies as a sequence grows (dynamic, longrope) are taken for the
// context that the engine serves, so that a token's rotation never depends on how long its sequence became.
//   default   f_i = base^(−2i/d)
//   linear    f_i / factor                                   (Chen et al. 2023, position interpolation)
//   dynamic   base · (factor·n/original − (factor−1))^(d/(d−2)) where n, the context, exceeds the original one (NTK)
//   yarn      between f_i and f_i / factor by how often i turns over the original context (Peng et al. 2023);
//             magnitude 0.1·ln(factor) + 1
//   llama3    the same by wavelength, between two factors of the original context
//   longrope  f_i / short_i or f_i / long_i, the latter where n exceeds the original context (Ding et al. 2024);
//             magnitude √(1 + ln(factor) / ln(original)), the factor being trained/original where none is given,
//             or what the file names for either (short_mscale, long_mscale)
//   proportional  f_i / factor of the first of a head's pairs; the others stand still
// GGUF has no "dynamic": its files say type "none" and rope.scaling.quire_dynamic_factor, so that others take the model
// within its original context, which dynamic leaves alone.
// rope.scaling.attn_factor multiplies the magnitude of every kind but longrope, whose magnitude it is.
// A tensor "rope_freqs.weight" divides the frequencies, whatever the kind (GGUF's way of storing llama3's).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/model_file.h"
#include "tensor/tensor.h"

namespace quire {

struct Rope {
  std::vector<int64_t> freq;  // bits of the rotation per position, one f64 a pair
  double magnitude = 1.0;     // of cos and sin
};

// i64 [pairs]: Rope::freq as Ops::rope_table reads it. `rope` outlives it.
Tensor frequencies(const Rope& rope);

struct RopeQuery {
  std::string prefix;  // "llama."; the facts are <prefix>rope.scaling.*
  int n_rope = 0;      // rotated components of a head
  double base = 10000.0;
  int n_ctx = 0;          // positions that will be served
  int n_ctx_trained = 0;  // the model's own
};

// What frequencies of pairs are divided by that stand still. GGUF's number.
inline constexpr double kStillDivisor = 1e30;
inline constexpr std::string_view kDynamicFactor = "quire_dynamic_factor";
// A tenth of the folder's mscale_all_dim: scores are multiplied with the square of (1 + this · ln(factor)), and yarn's
// cos and sin with nothing, unless the facts say mscale too.
inline constexpr std::string_view kYarnLogMultiplier = "yarn_log_multiplier";

// What yarn multiplies cos and sin with, where its facts say nothing else.
double yarn_magnitude(double factor, double mscale);

// The kind of scaling that the facts <prefix>rope.scaling.* name, "none" where there is none.
Result<std::string> rope_kind(const ModelFile& file, const std::string& prefix);

// Errors name key or tensor, range and value.
Result<Rope> read_rope(const ModelFile& file, const RopeQuery& query);
// Without any scaling.
Rope plain_rope(int n_rope, double base);

}  // namespace quire
