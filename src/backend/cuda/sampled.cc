// Rows of logits on their way to the host, which draws from them.
#include <algorithm>
#include <array>

#include "backend/cuda/backend.h"
#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"
#include "ops/op_check.h"

namespace quire::cuda {
namespace {

constexpr int64_t kSampledTogether = 16;  // rows of logits that are copied to the host at a time

}  // namespace

void CudaOps::sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) {
  check_sample(logits, out.size(), params.size());
  for (size_t i = 0; i < out.size(); i += kSampledTogether) {
    const size_t n = std::min<size_t>(kSampledTogether, out.size() - i);
    sample_rows(out.subspan(i, n), logits.rows(static_cast<int64_t>(i), static_cast<int64_t>(n)), params.subspan(i, n));
  }
  if (out.empty()) finish();
}

// By way of the workspace, where they lie together: a driver may let the host wait for a copy out of memory that both
// share. What has no room there is copied from where it lies.
void CudaOps::bring(std::span<const Brought> all) {
  begin();
  std::array<const std::byte*, 2> from{};  // null: where it lies
  QR_CHECK(all.size() <= from.size());
  int64_t used = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor& rows = all[i].rows;
    const int64_t n = rows.dim(0), width = rows.dim(1), bytes = n * width * 4;
    if (bytes > kWorkspaceBytes - used || n > kMostRows) continue;
    std::byte* const at = workspace_ + used;
    run_each(*runtime_,
             CopyRows{{reinterpret_cast<uint32_t*>(at), width},
                      {reinterpret_cast<const uint32_t*>(rows.data), rows.stride[0]}},
             n, width);
    from[i] = at;
    used += bytes;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [to, rows] = all[i];
    const int64_t n = rows.dim(0), row_bytes = rows.dim(1) * 4;
    if (from[i] != nullptr) {
      runtime_->download(to, from[i], n * row_bytes);
      continue;
    }
    for (int64_t r = 0; r < n; ++r)
      runtime_->download(to + r * row_bytes, rows.data + r * rows.stride[0] * 4, row_bytes);
  }
}

// By a copy in pinned memory; where there is none for it, in the memory that is shared.
void CudaOps::sample_rows(std::span<Sampled> out, const Tensor& logits, std::span<const SampleParams> params) {
  const int64_t row_bytes = logits.dim(1) * 4, bytes = logits.dim(0) * row_bytes;
  if (bytes > pinned_bytes_) finish();
  std::byte* const copies = pinned(bytes);
  if (copies != nullptr) bring(std::array{Brought{copies, logits}});
  wait();
  for (size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    float* row = copies != nullptr ? reinterpret_cast<float*>(copies + at * row_bytes) : logits.row<float>(at);
    sample_row(std::span(row, static_cast<size_t>(logits.dim(1))), params[i], sums_, scratch_, out[i]);
  }
}

}  // namespace quire::cuda
