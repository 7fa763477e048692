// Tables of the kernels of layers that keep a state, as kernels/tables.h has those of the others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/f16.h"  // QR_INLINE

namespace quire {

// The rows of one sequence through a part of what keeps a state.
struct StateTask {
  std::byte* states = nullptr;  // block 0's state, where the part begins
  int64_t block_bytes = 0;
  const float* from = nullptr;  // the state before row 0; null: zeros
  const int32_t* to = nullptr;  // [n]: the block that takes the state behind a row; −1: none
  int64_t n = 0;

  QR_INLINE float* state(int32_t block) const { return reinterpret_cast<float*>(states + block * block_bytes); }
};

// Through a short convolution of some columns; a state is [n_taps − 1] rows, state_stride apart.
struct ConvTask : StateTask {
  int64_t d = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  int n_taps = 0;
  const float* w = nullptr;  // [n_taps], state_stride apart
  const float* b = nullptr;  // null: none
  int64_t state_stride = 0;
};

// Through one head of a selective scan; a state is [state_dim, head_dim].
struct ScanTask : StateTask {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  const float* c = nullptr;
  int64_t c_stride = 0;
  const float* steps = nullptr;  // of each row its step and exp(step · a), steps_stride apart
  int64_t steps_stride = 0;
  float skip = 0.0F;  // the share of x itself
  float* y = nullptr;
  int64_t y_stride = 0;
  int head_dim = 0, state_dim = 0;
};

// Through some columns of a scan with steps of their own (ScanParams::by_component); a state is [state_dim] rows,
// state_stride apart.
struct ColumnScanTask : StateTask {
  int64_t d = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  const float* c = nullptr;
  int64_t c_stride = 0;
  const float* steps = nullptr;  // of each row and column
  int64_t steps_stride = 0;
  const float* a = nullptr;  // [state_dim], state_stride apart
  const float* skip = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
  int state_dim = 0;
  int64_t state_stride = 0;
};

// Through one head of a delta rule; a state is [k_dim, v_dim].
struct DeltaTask : StateTask {
  const float* q = nullptr;  // of each row, at its length; made_stride apart, as k, fades and share are
  const float* k = nullptr;
  const float* fades = nullptr;  // exp(step · a), of a component fade_stride apart
  const float* share = nullptr;
  int64_t made_stride = 0, fade_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  int k_dim = 0, v_dim = 0;
};

// Through one head of RWKV's recurrence; a state is [dim, dim].
struct WkvTask : StateTask {
  const float* r = nullptr;
  int64_t r_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  const float* made = nullptr;  // of each row fade | key | gone | back, [dim] each; the last two only where it has_rate
  int64_t made_stride = 0;
  bool has_rate = false;  // RWKV 7
  float* y = nullptr;
  int64_t y_stride = 0;
  int dim = 0;
};

struct StateKernels {
  std::string_view isa;
  void (*conv)(const ConvTask& task);
  void (*scan)(const ScanTask& task);
  void (*scan_columns)(const ColumnScanTask& task);
  void (*delta_rule)(const DeltaTask& task);
  void (*wkv)(const WkvTask& task);
};

// Of every set that was compiled.
std::span<const StateKernels* const> state_kernels();

}  // namespace quire
