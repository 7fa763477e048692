// A backend that computes nothing: for models without numbers (replays, scripted tests), which need memory and sampling
// only. An op that is called all the same is a bug.
#pragma once
#include <cstdlib>

#include "base/check.h"
#include "ops/ops.h"

namespace quire {

class NoOps : public Ops {
 public:
  Result<Linear> load_linear(const HostWeight&, const HostWeight*, Shard) override {
    return fail(Code::unsupported, "this backend loads no weights");
  }
  Result<Tensor> load_vector(const HostWeight&) override {
    return fail(Code::unsupported, "this backend loads no weights");
  }
  void embed(Tensor, Tensor, const Linear&) override { unused(); }
  void rms_norm(Tensor, Tensor, Tensor, float) override { unused(); }
  void add_rms_norm(Tensor, Tensor, Tensor, Tensor, float) override { unused(); }
  void head_norm(Tensor, Tensor, float) override { unused(); }
  void scale(Tensor, float) override { unused(); }
  void soft_cap(Tensor, float) override { unused(); }
  void add(Tensor, Tensor) override { unused(); }
  void linear(Tensor, Tensor, std::span<const Linear>) override { unused(); }
  void gated(Tensor, Tensor, Tensor, Activation) override { unused(); }
  void moe(Tensor, const MoeInput&, const Experts&) override { unused(); }
  void rope_table(Tensor, Tensor, Tensor, double) override { unused(); }
  void rope(Tensor, Tensor, int, RopePairs) override { unused(); }
  void kv_write(Tensor, Tensor, Tensor, const KvView&, const AttnParams&) override { unused(); }
  void attend(Tensor, Tensor, const KvView&, const AttnMeta&, const AttnParams&) override { unused(); }
  void rows(Tensor, Tensor, Tensor) override { unused(); }

 private:
  [[noreturn]] static void unused() {
    QR_CHECK(false, "a model without numbers uses no op");
    std::abort();
  }
};

}  // namespace quire
