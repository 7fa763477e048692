// A layer's part with a gated delta rule in place of attention: products, a short convolution over queries, keys and
// values, the rule, norms of heads, a gate. Its state is a matrix a head, of a fixed number of bytes. Const after load;
// used by the engine thread. Source: Yang, Kautz and Hatamizadeh, "Gated delta networks".
#pragma once
#include "model/state_mixer.h"

namespace quire {

// "<arch>.ssm.*" as GGUF has it of such layers: group_count keys, time_step_rank heads of values.
Status read_delta_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config);

// A fact that folders have and GGUF has not: value heads that share a key lie side by side.
inline constexpr const char* kHeadsInRuns = "ssm.heads_in_runs";

// The loader has entered "blk.<l>.". By GGUF's names: queries, keys and values in one matrix or in three, both kinds of
// gates in one (as many rows of beta, then of alpha, as heads share a key, a key after the other) or in two.
void load_delta_mixer(WeightLoader& load, const DecoderConfig& config, StateMixer& mixer);
int64_t delta_mixer_row_floats(const StateConfig& config);
void run_delta_mixer(
    Tensor out, const StateMixer& mixer, const StateConfig& config, const NormedRows& in, const Pass& pass);

}  // namespace quire
