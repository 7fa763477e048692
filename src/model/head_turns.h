// Value heads of a delta rule in GGUF's order: those that share a key lie n_key_heads apart there, side by side in a
// folder. Pure functions; any thread.
#pragma once
#include "base/result.h"
#include "io/model_file.h"
#include "model/config.h"

namespace quire {

// Puts all tensors that know of the order into the other one; c: by read_delta_config. REQUIRES floats. Code::corrupt
// names a tensor that has not the numbers that the facts say.
Status put_heads_in_turn(const StateConfig& c, ModelFile& file);

}  // namespace quire
