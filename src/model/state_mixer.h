// A layer's part that keeps a state in place of attention: a short convolution and a selective scan between two
// products (Mamba-2), the convolution alone between two gates (LFM2), a gated delta rule (model/delta_mixer.h), or a
// scan with steps of columns (model/column_mixer.h). The state is a fixed number of bytes of a sequence, whatever its
// length. Const after load; used by the engine thread. Source: Dao and Gu, "Transformers are SSMs".
#pragma once
#include <string>
#include <vector>

#include "kv/layout.h"
#include "model/config.h"
#include "model/model.h"
#include "model/weight_loader.h"

namespace quire {

struct StateMixer {
  // n_embd → gate | x, b and c | steps: n_inner | n_conv | n_heads; or gate | gate | x; or q, k and v | gate | beta |
  // alpha: n_conv | n_inner | n_heads | n_heads; or x | gate: n_inner | n_inner.
  std::vector<Linear> in;
  std::vector<Linear> out;  // n_inner → n_embd, or n_channels → n_embd
  ShortConv conv;           // over the n_conv columns, or the n_channels
  ScanParams scan;
  DeltaParams delta;
  Tensor norm;                       // [n_inner]; [head_dim] of a delta rule
  std::vector<Linear> parts, steps;  // of steps of columns: n_inner → n_step_rank | b | c; n_step_rank → n_inner
  Tensor step_norm, b_norm, c_norm;  // [n_step_rank], [state_dim], [state_dim], of these; only some have them
  int group = 0;                     // KV group of the states
  int64_t conv_offset = 0, scan_offset = 0;  // bytes of a state before this layer's
};

// "<arch>.ssm.*" into config.state. REQUIRES config.n_embd. Errors name key, range and value; sizes are such that their
// products fit 64 bits, and within what the ops take.
Status read_state_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config);

// "<arch>.shortconv.l_cache", of layers without a scan, likewise.
Status read_conv_config(const ModelFile& file, const std::string& prefix, DecoderConfig& config);

// Where a layer's states lie, `offset` bytes into a block, and which rows read and leave one.
StateRows state_rows(const StateMixer& mixer, int64_t offset, const Pass& pass);

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
