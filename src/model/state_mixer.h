// A layer's part that keeps a state in place of attention (Mamba-2): a short convolution and a selective scan between
// two products. The state is a fixed number of bytes of a sequence, whatever its length. Const after load; used by the
// engine thread. Source: Dao and Gu, "Transformers are SSMs".
#pragma once
#include <string>
#include <vector>

#include "kv/layout.h"
#include "model/config.h"
#include "model/model.h"
#include "model/weight_loader.h"

namespace quire {

struct StateMixer {
  std::vector<Linear> in;   // n_embd → gate | x, b and c | steps: n_inner | n_conv | n_heads
  std::vector<Linear> out;  // n_inner → n_embd
  ShortConv conv;           // over the n_conv columns
  ScanParams scan;
  Tensor norm;                               // [n_inner]
  int group = 0;                             // KV group of the states
  int64_t conv_offset = 0, scan_offset = 0;  // bytes of a state before this layer's
};

// "<arch>.ssm.*" into config.state. REQUIRES config.n_embd. Errors name key, range and value; sizes are such that their
// products fit 64 bits, and within what the ops take.
Status read_state_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config);

// Claims room for a layer's state.
void claim_state(const StateConfig& config, KvLayout& layout, StateMixer& mixer);
// The loader has entered "blk.<l>.".
void load_state_mixer(WeightLoader& load, const DecoderConfig& config, StateMixer& mixer);
// Floats of the arena that run_state_mixer takes for each row at most.
int64_t state_mixer_row_floats(const StateConfig& config);
// out [n, n_embd]: what to add to the residual stream.
void run_state_mixer(
    Tensor out, const StateMixer& mixer, const StateConfig& config, const NormedRows& in, const Pass& pass);

}  // namespace quire
