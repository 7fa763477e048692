// What a row of logits is picked by where its token is wanted before the host has the row (AheadOps::pick): parameters
// of the sampler as whole numbers, which go among a step's tables. What is picked is what sample_row gives by the same
// parameters, token for token.
#pragma once
#include <array>
#include <cstdint>

#include "ops/sample.h"

namespace quire {

// Filters that a pick may have, in any order. All of them keep where a row, sorted, begins.
inline constexpr std::array kPickFilters = {kFilter<filters::Temperature>, kFilter<filters::MinP>,
                                            kFilter<filters::TopK>, kFilter<filters::TopP>};

// Above it, and below 1, float sums over a vocabulary of a million say no more where top-p ends: then the sampler's
// result is that of its own bound on the candidates, which is made of a logarithm.
inline constexpr float kMostPickTopP = 0.9999F;

// Whether a row can be picked by them: it is greedy, or no filter acts but kPickFilters, with one temperature and
// min_keep 1, and nothing is edited or forced.
bool can_pick(const SampleParams& params);

// A row of the op's numbers, i32:
//   0      bits of the temperature; 0: the largest logit, and nothing else counts
//   1, 2   the draw, the lower half of its bits first
//   3      the filters that act, in order: four bits each, the first lowest, 1 + the place in kPickFilters
//   4      top_k
//   5      bits of top_p
//   6, 7   log(min_p) / f, halves of a double's bits, with the f of docs/sampling.md at min_p's place
//   8      bits of min_p
inline constexpr int kPickNumbers = 9;
void put_pick(const SampleParams& params, int32_t* to);  // REQUIRES can_pick

// The parameters again; what does not count for the token is not among them. `order` is theirs, and outlives them.
using PickOrder = std::array<Filter, kPickFilters.size()>;
SampleParams picked_by(const int32_t* from, PickOrder& order);

}  // namespace quire
