#include "sample/sampling_params.h"

#include "base/rng.h"

namespace quire {

SampleParams sample_params(const SamplingParams& wanted, int64_t position, const LogitEdits* edits) {
  SampleParams out;
  out.temperature = wanted.temperature;
  out.top_k = wanted.top_k;
  out.top_p = wanted.top_p;
  out.min_p = wanted.min_p;
  out.draw = random_unit(wanted.seed, static_cast<uint64_t>(position));
  out.edits = edits;
  out.n_top = wanted.n_logprobs > 0 ? wanted.n_logprobs : 0;
  return out;
}

}  // namespace quire
