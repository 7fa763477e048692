// The one list of ops for those that stand before a backend: who watches some of them, and who forbids them all
// (no_ops.h). Each op goes on to target(); whoever derives overrides those that it has something to say to. The parts
// of a layer are taken apart into ops, so that a watcher sees every one. A new op is a line here and nowhere else.
#pragma once
#include <memory>
#include <utility>

#include "ops/ops.h"

namespace quire {

class ForwardingOps : public Ops {
 public:
  std::string describe() const override { return target().describe(); }
  uint64_t numerics() const override { return target().numerics(); }
  Result<Buffer> allocate(int64_t bytes) override { return target().allocate(bytes); }
  Result<Buffer> allocate_blocks(int64_t bytes) override { return target().allocate_blocks(bytes); }
  int64_t free_bytes() override { return target().free_bytes(); }
  Result<Buffer> allocate_arena(int64_t bytes) override { return target().allocate_arena(bytes); }
  void finish() override { target().finish(); }
  AheadOps* ahead() override { return target().ahead(); }
  Status take_error() override { return target().take_error(); }
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) override {
    return target().load_linear(weight, bias, shard);
  }
  Result<Tensor> load_vector(const HostWeight& weight) override { return target().load_vector(weight); }
  Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override {
    return target().load_low_rank(from, to);
  }
  void embed(Tensor y, Tensor ids, const Linear& table) override { target().embed(y, ids, table); }
  void rms_norm(Tensor y, Tensor x, Tensor w, float eps) override { target().rms_norm(y, x, w, eps); }
  void add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) override {
    target().add_rms_norm(y, x, delta, w, eps);
  }
  void layer_norm(Tensor y, Tensor x, Tensor w, Tensor b, float eps) override { target().layer_norm(y, x, w, b, eps); }
  void add(Tensor x, Tensor delta) override { target().add(x, delta); }
  void head_norm(Tensor x, Tensor w, float eps) override { target().head_norm(x, w, eps); }
  void scale(Tensor x, float factor) override { target().scale(x, factor); }
  void gate_rows(Tensor x, Tensor gate) override { target().gate_rows(x, gate); }
  void soft_cap(Tensor x, float cap) override { target().soft_cap(x, cap); }
  void linear(Tensor y, Tensor x, std::span<const Linear> parts) override { target().linear(y, x, parts); }
  void add_low_rank(Tensor y, Tensor x, const AddedProducts& added) override { target().add_low_rank(y, x, added); }
  void gated(Tensor y, Tensor gate, Tensor up, Activation act) override { target().gated(y, gate, up, act); }
  void moe(Tensor y, const MoeInput& in, const Experts& experts) override { target().moe(y, in, experts); }
  void rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) override {
    target().rope_table(out, pos, freq, magnitude);
  }
  void rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) override {
    target().rope(x, table, head_dim, pairs);
  }
  void kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) override {
    target().kv_write(k, v, slots, kv, params);
  }
  void pack_strips(Tensor slots, Tensor tails, const KvView& kv, const AttnParams& params) override {
    target().pack_strips(slots, tails, kv, params);
  }
  void attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) override {
    target().attend(out, q, kv, meta, params);
  }
  void short_conv(Tensor y, Tensor x, const ShortConv& conv, const StateRows& rows) override {
    target().short_conv(y, x, conv, rows);
  }
  void scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) override {
    target().scan(y, in, params, rows);
  }
  void delta_rule(Tensor y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) override {
    target().delta_rule(y, in, params, rows);
  }
  void wkv(Tensor y, Tensor own, const WkvInput& in, const WkvParams& params, const StateRows& rows) override {
    target().wkv(y, own, in, params, rows);
  }
  void rows(Tensor y, Tensor x, Tensor ids) override { target().rows(y, x, ids); }
  void each(int64_t n, const std::function<void(int64_t)>& task) override { target().each(n, task); }
  void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override {
    target().sample(out, logits, params);
  }

 protected:
  // Who answers what is not overridden.
  virtual Ops& target() const = 0;
};

// Before one backend, which it owns.
class WrappedOps : public ForwardingOps {
 public:
  explicit WrappedOps(std::unique_ptr<Ops> ops) : ops_(std::move(ops)) {}

 protected:
  Ops& target() const override { return *ops_; }

 private:
  std::unique_ptr<Ops> ops_;
};

}  // namespace quire
