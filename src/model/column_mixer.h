// A layer's part that scans with steps of each column's own (Mamba-1): a product, a short convolution, steps and what a
// state is written and read by out of what that finds, the scan, a gate. Const after load; used by the engine thread.
// Source: Gu and Dao, "Mamba: Linear-time sequence modeling with selective state spaces".
#pragma once
#include "model/state_mixer.h"

namespace quire {

// "<arch>.ssm.*" as GGUF has it of such layers: time_step_rank numbers make the steps of inner_size columns. Norms of
// these and of what a state is written and read by: "ssm.dt_b_c_rms", their epsilon "ssm.norm_epsilon", which folders
// have and GGUF has not. REQUIRES config.n_embd. Errors name key, range and value.
Status read_column_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config);
inline constexpr const char* kPartEpsilon = "ssm.norm_epsilon";

// The loader has entered "blk.<l>.".
void load_column_mixer(WeightLoader& load, const DecoderConfig& config, StateMixer& mixer);
int64_t column_mixer_row_floats(const StateConfig& config);
void run_column_mixer(
    Tensor out, const StateMixer& mixer, const StateConfig& config, const NormedRows& in, const Pass& pass);

}  // namespace quire
