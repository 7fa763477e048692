// Every limit of the engine, checked before work: what options may say, what a request may ask for, how much memory the
// cache takes by itself. Pure functions but for default_kv_bytes, which asks the system. Any thread.
#pragma once
#include <cstdint>

#include "engine/engine.h"

namespace quire {

// Ranges of the numbers; n_ctx must be filled in, kv_group is the model's. Code::invalid names option, range and value.
Status check_options(const EngineOptions& options, int kv_group);

struct RequestLimits {
  int n_ctx = 0, n_vocab = 0;
  int n_blocks = 0, block_tokens = 0;
};

// Refuses what can never run (Engine::submit lists it) and cuts max_tokens at the context.
Status check_request(Request& request, const RequestLimits& limits);

// Cache memory when nothing was asked for. At least one block.
int64_t default_kv_bytes(int64_t context_bytes, int64_t block_bytes, int max_seqs);

// Memory of a step's batch and activations. REQUIRES n_ctx to be filled in.
int64_t scratch_bytes(const Model& model, const EngineOptions& options);

// Blocks of block_bytes that kv_bytes make. Code::invalid with both numbers when there are none or more than slots have
// numbers.
Result<int> count_blocks(const EngineOptions& options, int64_t block_bytes);

}  // namespace quire
