// A step that is asked for while the one before it runs: ids are picked on the device, logits go to pinned memory, and
// the host waits for a mark behind them.
#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda/backend.h"
#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/launches.h"
#include "backend/cuda/tensor_rows.h"
#include "ops/op_check.h"
#include "ops/pick.h"

namespace quire::cuda {

static_assert(PickTokens::kNumbers == kPickNumbers);

void CudaOps::pick(Tensor picked, Tensor logits, Tensor numbers) {
  check_pick(picked, logits, numbers);
  if (logits.dim(1) > PickTokens::kMost) {
    finish();
    return HostAhead(*this).pick(picked, logits, numbers);
  }
  const Op op(*this);
  const PickTokens kernel{picked.ptr<int32_t>(), read_rows(logits), tables_.numbers(numbers),
                          static_cast<int>(logits.dim(1))};
  run(*runtime_, kernel, logits.dim(0));
}

void CudaOps::take_picked(Tensor out, Tensor ids, Tensor picked, Tensor from) {
  check_take_picked(out, ids, picked, from);
  const Op op(*this);
  run_each(*runtime_,
           TakePicked{out.ptr<int32_t>(), tables_.numbers(ids), picked.ptr<int32_t>(), tables_.numbers(from)}, 1,
           out.dim(0));
}

Result<Buffer> CudaOps::allocate_sent(int64_t bytes) {
  QR_TRY(std::byte * data, runtime_->allocate(bytes, Place::pinned));
  return Buffer::of({data, [runtime = runtime_](std::byte* p) { runtime->release(p); }}, bytes);
}

void CudaOps::send(const StepRows& to, const StepRows& from, int slot) {
  check_send(to, from);
  const Tensor picked = Tensor::dense(from.picked.data, DType::i32, {1, from.picked.dim(0)});
  bring(std::array{Brought{to.logits.data, from.logits}, Brought{to.picked.data, picked}});
  runtime_->set_mark(slot);
  loaded_->sent(slot);
  is_behind_marks_ = true;
  has_new_tables_ = true;
  sent_.at(static_cast<size_t>(slot)) = {.is_under_way = true, .done = {}};
}

Status CudaOps::arrived(int slot) {
  Sent& sent = sent_.at(static_cast<size_t>(slot));
  if (sent.done) wait_by([this, slot] { runtime_->wait_for(slot); });
  if (sent.done && !runtime_->is_well()) static_cast<void>(take_error());
  if (sent.done) loaded_->arrived(slot);
  sent.is_under_way = false;
  if (is_behind_marks_ && std::ranges::none_of(sent_, &Sent::is_under_way)) loaded_->finished();
  return std::exchange(sent.done, {});
}

void CudaOps::sample_sent(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) {
  check_sample(logits, out.size(), params.size());
  scratch_.reserve(logits.dim(1));
  for (size_t i = 0; i < out.size(); ++i) {
    const std::span row(logits.row<float>(static_cast<int64_t>(i)), static_cast<size_t>(logits.dim(1)));
    sample_row(row, params[i], sums_, scratch_, out[i]);
  }
}

}  // namespace quire::cuda
