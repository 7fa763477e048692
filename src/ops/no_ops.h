// A backend that computes nothing: for models without numbers (replays, scripted tests), which need memory and sampling
// only, and override those. An op that is called all the same is a bug.
#pragma once
#include <cstdlib>

#include "base/check.h"
#include "ops/forwarding_ops.h"

namespace quire {

class NoOps : public ForwardingOps {
 public:
  Result<Linear> load_linear(const HostWeight&, const HostWeight*, Shard) override {
    return fail(Code::unsupported, "this backend loads no weights");
  }
  Result<Tensor> load_vector(const HostWeight&) override {
    return fail(Code::unsupported, "this backend loads no weights");
  }
  Result<Buffer> load_low_rank(std::span<const LowRankSource>, std::span<LowRank>) override {
    return fail(Code::unsupported, "this backend loads no weights");
  }

  // Whoever derives says where memory comes from.
  Result<Buffer> allocate_blocks(int64_t bytes) override { return allocate(bytes); }
  int64_t free_bytes() override { return -1; }
  Result<Buffer> allocate_arena(int64_t bytes) override { return allocate(bytes); }
  void finish() override {}
  Status take_error() override { return {}; }
  AheadOps* ahead() override { return nullptr; }
  uint64_t numerics() const override { return kNumericsVersion; }
  void each(int64_t n, const std::function<void(int64_t)>& task) override {
    for (int64_t i = 0; i < n; ++i) task(i);
  }

 private:
  [[noreturn]] Ops& target() const final {
    QR_CHECK(false, "a model without numbers uses no op");
    std::abort();
  }
};

}  // namespace quire
