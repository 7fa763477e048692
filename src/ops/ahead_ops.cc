#include "ops/ahead_ops.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "ops/op_check.h"
#include "ops/ops.h"
#include "ops/pick.h"
#include "ops/sample_row.h"

namespace quire {

void HostAhead::pick(Tensor picked, Tensor logits, Tensor numbers) {
  check_pick(picked, logits, numbers);
  const auto n = static_cast<size_t>(logits.dim(0));
  std::vector<Sampled> out(n);
  std::vector<SampleParams> params(n);
  std::vector<PickOrder> orders(n);
  for (size_t i = 0; i < n; ++i) params[i] = picked_by(numbers.row<int32_t>(static_cast<int64_t>(i)), orders[i]);
  ops_.sample(out, logits, params);
  for (size_t i = 0; i < n; ++i) {
    if (out[i].token == kNoMemoryToken) throw std::bad_alloc();
    picked.ptr<int32_t>()[i] = std::max(out[i].token, 0);
  }
}

void HostAhead::take_picked(Tensor out, Tensor ids, Tensor picked, Tensor from) {
  check_take_picked(out, ids, picked, from);
  for (int64_t i = 0; i < out.dim(0); ++i) {
    const int32_t at = from.ptr<int32_t>()[i];
    out.ptr<int32_t>()[i] = at < 0 ? ids.ptr<int32_t>()[i] : picked.ptr<int32_t>()[at];
  }
}

Result<Buffer> HostAhead::allocate_sent(int64_t bytes) { return ops_.allocate(bytes); }

void HostAhead::send(const StepRows& to, const StepRows& from, int) {
  check_send(to, from);
  const auto row_bytes = static_cast<size_t>(to.logits.dim(1)) * sizeof(float);
  for (int64_t i = 0; i < to.logits.dim(0); ++i)
    std::memcpy(to.logits.row<float>(i), from.logits.row<float>(i), row_bytes);
  std::ranges::copy(from.picked.span<int32_t>(), to.picked.ptr<int32_t>());
}

Status HostAhead::arrived(int) { return ops_.take_error(); }

void HostAhead::sample_sent(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) {
  ops_.sample(out, logits, params);
}

}  // namespace quire
