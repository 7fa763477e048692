// What the cache and continuous batching are worth, on the model at hand: the comparisons that textbooks make,
// measured. Each runs the same work twice through the engine and prints one line for each way and their ratio.
#pragma once
#include "app/wire.h"

namespace quire {

// One prompt and its answer, with cached keys and values and by computing all of the past for each token. Fails with
// Code::internal when the two answers differ.
Status compare_cache(const LoadedModel& loaded, int n_prompt, int n_generate, bool json);

struct TraceBench {
  int n_requests = 64, n_seqs = 8;           // in all, at most at once
  int max_prompt = 512, max_generate = 128;  // lengths are drawn between these and a sixteenth, short ones more often
};
// A trace of mixed lengths, all there from the beginning: in batches that are filled anew when the last of a batch has
// ended, and continuously. The lines tell too what share of the blocks' slots held nothing.
Status compare_batching(const LoadedModel& loaded, const TraceBench& options, bool json);

}  // namespace quire
