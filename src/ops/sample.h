// What the sample op takes and gives: plain values, the same for every backend (the definition is in sample_row.h).
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "ops/filters.h"

namespace quire {

// A change to one logit before sampling: x becomes (x > 0 ? x / mul : x · mul) + add. mul > 1 makes a token less
// probable whatever its logit's sign (the repetition penalty of Keskar et al. 2019); add may be −inf, which forbids it.
struct Edit {
  Token id;
  float add, mul;
};
struct LogitEdits {
  std::vector<uint32_t> bitmask;  // bit id % 32 of word id / 32: allowed; empty: all
  std::vector<Edit> sparse;       // in order; ids may repeat
};

// Numbers of the filters among them; by default the largest logit is taken.
struct SampleParams : FilterNumbers {
  SampleParams() { temperature = 0.0F; }  // 0: the largest logit, whatever else is asked for

  int min_keep = 1;                               // no cut leaves fewer
  std::span<const Filter> order = kDefaultOrder;  // what is not in it does not act; no name twice
  double draw = 0.0;                              // uniform in [0, 1), from (seed, position)
  const LogitEdits* edits = nullptr;
  Token forced = -1;    // ≥ 0: this is the token, nothing is drawn, edits do not act
  bool logprob = true;  // report the token's; costs an exponential over the vocabulary
  int n_top = 0;        // how many of the largest to report; above 0 REQUIRES logprob
  // These are of what edits and filters left, from which the token is drawn, instead of the model's own distribution.
  // Not together with forced.
  bool of_drawn = false;
};
struct TopLogprob {
  Token id;
  float logprob;
};
struct Sampled {
  Token token = -1;
  float logprob = 0.0F;  // of the model's own distribution, before edits and temperature; see of_drawn
  bool ok = false;       // false: a logit was NaN or +inf, or edits left nothing; token is then -1
  std::vector<TopLogprob> top;
  float surprise = 0.0F;  // bits, of the distribution that mirostat drew from; 0 without it
};

// What a row is drawn by where a temperature alone acts, as whole numbers: the bits of the temperature, and of the draw
// in two halves. Rows of Ops::pick's draws, i32 [n, kPickNumbers].
inline constexpr int kPickNumbers = 3;
struct PickDraw {
  float temperature = 0.0F;  // 0: the largest logit
  double draw = 0.0;
};
inline void put_pick(const PickDraw& from, int32_t* to) {
  const auto bits = std::bit_cast<uint64_t>(from.draw);
  to[0] = std::bit_cast<int32_t>(from.temperature);
  to[1] = static_cast<int32_t>(bits & 0xffffffffU);
  to[2] = static_cast<int32_t>(bits >> 32);
}
inline PickDraw pick_draw(const int32_t* from) {
  const uint64_t low = static_cast<uint32_t>(from[1]), high = static_cast<uint32_t>(from[2]);
  return {std::bit_cast<float>(from[0]), std::bit_cast<double>(low | high << 32)};
}

}  // namespace quire
