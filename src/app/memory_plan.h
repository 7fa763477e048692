// How much memory a model needs, known before it is loaded, and how much of what is left the cache gets. The needs are
// exact: the architecture's own loading code runs over the file's shapes with a backend that only counts.
#pragma once
#include <algorithm>
#include <cstdint>

#include "app/draft_source.h"
#include "app/step_needs.h"
#include "app/wire.h"
#include "engine/engine.h"

namespace quire {

struct MemoryNeeds {
  int64_t weights = 0;          // in the backend's layout
  int64_t matrix_elements = 0;  // numbers in matrices, 0: not known
  int64_t scratch = 0;          // of a step, with `n_ctx` positions
  int64_t largest = 0;          // a matrix that is converted on its way: memory for the time of loading only
  int64_t process = 0;          // the rest, roughly: program, vocabulary, threads, sockets
  int64_t adapters = 0;         // that are loaded when the cache is there, about: what it leaves
  int64_t token_bytes = 0;      // of the cache
  int64_t window_token_bytes = 0, window_tokens = 0;  // of them by layers with a window, which keep so many tokens
  int64_t state_bytes = 0;                            // of the states of one sequence, whatever its length
  int64_t tail_bytes = 0;                             // of tokens that are not packed yet, with one sequence
  int64_t block_tokens = 0;
  int n_ctx = 0;  // what the model was trained for
  // Of all these what guessing ahead adds: weights, bytes of a cached token, memory of a step beside the model's own.
  // Logits of guessed rows are part of the model's step.
  struct Draft {
    int64_t weights = 0, token_bytes = 0, scratch = 0;
    int64_t kv_bytes(int64_t n_tokens, int64_t per_block) const {  // tokens of a block
      return (n_tokens + per_block - 1) / per_block * per_block * token_bytes;
    }
  };
  Draft draft;
  StepNeeds step;                             // not of memory: what its tokens need
  int64_t kv_bytes(int64_t n_tokens) const {  // whole blocks
    const int64_t n = (n_tokens + block_tokens - 1) / block_tokens * block_tokens;
    return n * (token_bytes - window_token_bytes) + std::min(n, window_tokens) * window_token_bytes + state_bytes +
           tail_bytes;
  }
};
// `file` was opened by open_model; `options.n_ctx` 0 counts as the model's. Fails as load() does where the model cannot
// be loaded at all. `draft`: what guesses for it.
Result<MemoryNeeds> measure_needs(const ModelFile& file,
                                  const ModelOptions& model,
                                  const EngineOptions& options,
                                  const DraftSource& draft = {});

struct MemoryPlan {
  int n_ctx = 0;
  int64_t kv_bytes = 0;
};
// Chooses what `wanted` leaves open (n_ctx or kv_bytes of 0). The cache gets what eight full contexts need, at most
// half of what the model leaves, but one context wherever that fits; an n_ctx that nobody asked for shrinks to what
// fits. Code::exhausted "… does not fit: needs X, has Y, try …". Pure.
Result<MemoryPlan> plan_memory(const MemoryNeeds& needs, int64_t available, const EngineOptions& wanted);

// The conversion that would make the weights smaller than they are: "--weights q8_0", "--weights q4_k", or empty.
std::string smaller_weights(const MemoryNeeds& needs);

// Whether a context of `n_ctx` tokens that was asked for fits into `kv_bytes` of cache that were asked for, which are
// the model's alone; 0: not asked for, so it fits. Code::exhausted as above. Pure.
Status check_context(const MemoryNeeds& needs, int n_ctx, int64_t kv_bytes);

// Both of them for a model that is about to be loaded: fills in `options` and model.ctx. Its file, opened, for load().
// Code::not_found without a model. `draft` as above: a model that drafts gets as many tokens of cache as the other one,
// heads need none. options.kv_bytes are the other one's alone. `adapter_bytes`: MemoryNeeds::adapters.
Result<ModelFile> fit_memory(ModelOptions& model,
                             EngineOptions& options,
                             const DraftSource& draft = {},
                             int64_t adapter_bytes = 0);

// What load() checks of a model that was not fitted: one block of cache and one token a step, no more.
Status check_weights_fit(const ModelFile& file, const ModelOptions& model);

// "512.0 MiB", "3.2 GiB".
std::string memory_text(int64_t bytes);

}  // namespace quire
