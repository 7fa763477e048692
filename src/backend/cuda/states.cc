// Layers that keep a state: what a row is made into in double by the host, in a run of rows for which the workspace has
// room, then the recurrence by a kernel.
#include <algorithm>
#include <utility>

#include "backend/cuda/backend.h"
#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"
#include "backend/cuda/tensor_rows.h"
#include "ops/op_check.h"
#include "ops/state_rows.h"

namespace quire::cuda {

static_assert(kMostStateDepth == kMostStateDim && ConvRow::kMostDepth == kMostTaps - 1);

namespace {

SequenceStates states_of(const TableCopies& tables, const StateRows& rows) {
  return {tables.numbers(rows.cu_q),
          tables.numbers(rows.from),
          tables.numbers(rows.to),
          reinterpret_cast<uint8_t*>(rows.at(0)),
          rows.view.block_bytes,
          nullptr,
          nullptr,
          0,
          static_cast<int>(rows.to.dim(0))};
}

template <class Of>
void run_rows(Runtime& runtime, const SequenceStates& states, const Of& of, int64_t n_heads, int64_t n_seqs) {
  QR_CHECK(n_heads <= kMostRows && n_seqs <= kMostRows);
  run(runtime, StateRowsKernel<Of>{states, of}, parts_of(of.width, Of::kThreads), n_heads, n_seqs);
}

}  // namespace

template <class Of, class Make>
void CudaOps::run_made(const StateRows& rows, Of of, int64_t n_heads, int64_t n_made, const Make& make) {
  const int64_t n = rows.to.dim(0), n_seqs = rows.cu_q.dim(0) - 1;
  const bool is_cut = n * n_made * 4 > kWorkspaceBytes;
  const int64_t state_bytes = is_cut ? (n_heads * of.depth * of.width * 4 + 255) / 256 * 256 : 0;
  const int64_t most = (kWorkspaceBytes - 2 * state_bytes) / (n_made * 4);
  QR_CHECK(most > 0,
           "two states and what a row is made into take " + std::to_string(2 * state_bytes + n_made * 4) + " bytes");
  std::byte *carried_in = workspace_, *carried_out = workspace_ + state_bytes, *room = carried_out + state_bytes;
  for (int64_t first = 0; first < n; first += most) {
    const int64_t end = std::min(n, first + most), n_floats = (end - first) * n_made;
    finish();
    made_.resize(static_cast<size_t>(n_floats));
    for (int64_t row = first; row < end; ++row) make(row, made_.data() + (row - first) * n_made);
    const Op op(*this);
    auto* made = reinterpret_cast<float*>(room);
    runtime_->upload(room, made_.data(), n_floats * 4);
    of.made = {made - first * n_made, n_made};
    SequenceStates states = states_of(tables_, rows);
    states.carried_in = reinterpret_cast<const float*>(carried_in);
    states.carried_out = reinterpret_cast<float*>(carried_out);
    std::swap(carried_in, carried_out);
    states.first_row = static_cast<int>(first);
    states.end_row = static_cast<int>(end);
    run_rows(*runtime_, states, of, n_heads, n_seqs);
  }
}

void CudaOps::short_conv(Tensor y, Tensor x, const ShortConv& conv, const StateRows& rows) {
  check_short_conv(y, x, conv, rows);
  const Op op(*this);
  const ConvRow of{.x = read_rows(x),
                   .y = rows_of(y),
                   .w = conv.w.ptr<float>(),
                   .b = conv.b.empty() ? nullptr : conv.b.ptr<float>(),
                   .width = static_cast<int>(x.dim(1)),
                   .depth = static_cast<int>(conv.w.dim(0)) - 1};
  run_rows(*runtime_, states_of(tables_, rows), of, 1, rows.cu_q.dim(0) - 1);
}

void CudaOps::scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) {
  check_scan(y, in, params, rows);
  const auto run_as = [&]<bool kByComponent>(int64_t n_made, const auto& make) {
    const ScanRow<kByComponent> of{.x = read_rows(in.x),
                                   .b = read_rows(in.b),
                                   .c = read_rows(in.c),
                                   .y = rows_of(y),
                                   .made = {},
                                   .a = params.a.ptr<float>(),
                                   .skip = params.d.ptr<float>(),
                                   .width = params.head_dim,
                                   .depth = params.state_dim,
                                   .heads_together = params.n_heads / params.n_head_groups};
    run_made(rows, of, params.n_heads, n_made, make);
  };
  const int64_t width = params.head_dim;
  if (params.by_component) {
    return run_as.operator()<true>(width,
                                   [&](int64_t row, float* at) { make_scan_steps(in, params, {row, 0}, width, at); });
  }
  run_as.operator()<false>(2 * int64_t{params.n_heads},
                           [&](int64_t row, float* at) { make_scan_row(in, params, row, at); });
}

void CudaOps::delta_rule(Tensor y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) {
  check_delta_rule(y, in, params, rows);
  const DeltaRuleRow of{.v = read_rows(in.v),
                        .y = rows_of(y),
                        .made = {},
                        .width = params.v_dim,
                        .depth = params.k_dim,
                        .n_heads = params.n_heads,
                        .n_key_heads = params.n_key_heads,
                        .n_fades = params.fades_by_component ? params.k_dim : 1,
                        .shares_in_turn = params.shares_in_turn};
  run_made(rows, of, params.n_heads, DeltaRow(params).stride,
           [&](int64_t row, float* at) { make_delta_row(in, params, row, at); });
}

void CudaOps::wkv(Tensor y, Tensor own, const WkvInput& in, const WkvParams& params, const StateRows& rows) {
  check_wkv(y, own, in, params, rows);
  const int64_t n_of_head = n_made_of(params);
  const auto make = [&](int64_t row, float* at) {
    for (int64_t h = 0; h < params.n_heads; ++h) {
      const int64_t begin = h * params.dim;
      make_wkv_head(in, params, {row, begin}, at + h * n_of_head, own.row<float>(row) + begin);
    }
  };
  const auto run_as = [&]<bool kHasRate>() {
    const WkvRow<kHasRate> of{.r = read_rows(in.r),
                              .v = read_rows(in.v),
                              .y = rows_of(y),
                              .made = {},
                              .width = params.dim,
                              .depth = params.dim};
    run_made(rows, of, params.n_heads, params.n_heads * n_of_head, make);
  };
  params.has_rate() ? run_as.operator()<true>() : run_as.operator()<false>();
}

}  // namespace quire::cuda
