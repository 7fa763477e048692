// The class behind the Ops seam. Matrices lie in device memory, vectors and what ops take and give in shared memory;
// every op asks the runtime for its kernels and waits for them, the two parts of a layer once at their end. Work that a
// host does (rotary tables, routing of experts, sampling) is done between waits. Owner: the engine thread.
#pragma once
#include <memory>
#include <vector>

#include "backend/cuda/kernels/attention.cuh"
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/runtime.h"
#include "ops/ops.h"
#include "ops/sample_row.h"

namespace quire::cuda {

class CudaOps final : public Ops {
 public:
  // Code::exhausted where the device has no memory for the workspace.
  static Result<std::unique_ptr<Ops>> make(std::shared_ptr<Runtime> runtime);
  ~CudaOps() override;

  std::string describe() const override { return "cuda, " + runtime_->describe(); }
  Result<Buffer> allocate(int64_t bytes) override;
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) override;
  Result<Tensor> load_vector(const HostWeight& weight) override;
  void embed(Tensor y, Tensor ids, const Linear& table) override;
  void rms_norm(Tensor y, Tensor x, Tensor w, float eps) override;
  void add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) override;
  void layer_norm(Tensor y, Tensor x, Tensor w, Tensor b, float eps) override;
  void add(Tensor x, Tensor delta) override;
  void head_norm(Tensor x, Tensor w, float eps) override;
  void scale(Tensor x, float factor) override;
  void gate_rows(Tensor x, Tensor gate) override;
  void soft_cap(Tensor x, float cap) override;
  void linear(Tensor y, Tensor x, std::span<const Linear> parts) override;
  void gated(Tensor y, Tensor gate, Tensor up, Activation act) override;
  void moe(Tensor y, const MoeInput& in, const Experts& experts) override;
  void rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) override;
  void rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) override;
  void kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) override;
  void attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) override;
  void attention(Tensor out, const NormedRows& in, const AttentionPart& part) override;
  void feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) override;
  void short_conv(Tensor y, Tensor x, const ShortConv& conv, const StateRows& rows) override;
  void scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) override;
  void delta_rule(Tensor y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) override;
  void rows(Tensor y, Tensor x, Tensor ids) override;
  void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override;

 private:
  explicit CudaOps(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  Result<std::byte*> own_memory(int64_t bytes, Place place);  // until the end

  // Waits when it ends, but where one of these surrounds it.
  class Op;
  template <class Kernel>
  void run(const Kernel& kernel, int64_t x, int64_t y = 1, int64_t z = 1);
  template <class Each>
  void run_each(const Each& each, int64_t n_rows, int64_t n_columns);
  void norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps);
  void multiply(const Tensor& y, const Tensor& x, std::span<const Linear> parts);
  // x quantised as LinearInteger wants it.
  struct Quantised {
    const int8_t* q;
    const float *scales, *sums, *half_sums;
    int n_groups, pitch;  // activation groups; rounded up to a stage's
    static int64_t pitch_of(int64_t n_in);
  };
  Quantised quantise(const Tensor& x);
  void multiply_integers(const Tensor& y, const Quantised& x, const Linear& part);
  template <class W>
  void multiply_floats(const Tensor& y, const Tensor& x, const Linear& part);
  template <class W>
  void embed_floats(const Tensor& y, const Tensor& ids, const Linear& table);
  template <class Codec>
  void attend_rows_of(const Tensor& out, const Tensor& q, const AttentionPart& part, int n_chunks);
  void attend_rows(Tensor out, Tensor q, const AttentionPart& part, int n_chunks);

  std::shared_ptr<Runtime> runtime_;
  std::vector<std::byte*> memory_;
  std::byte* workspace_ = nullptr;
  int depth_ = 0;  // of ops in ops
  SampleScratch scratch_;
};

}  // namespace quire::cuda
