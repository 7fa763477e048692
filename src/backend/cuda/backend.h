// The class behind the Ops seam. Matrices and the cache lie in device memory, vectors and what ops take and give in
// shared memory, tables of whole numbers in pinned memory, of which the device has a copy: it is brought up to date by
// the first op behind finish() or send(). An op asks the runtime for its kernels and returns; finish() waits for them.
// What a host does (routing of experts, gates of rows, what states' rows are made into, sampling) waits first. Owner:
// the engine thread.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/attend.h"
#include "backend/cuda/block_copies.h"
#include "backend/cuda/cuda_ops.h"
#include "backend/cuda/integer_formats.h"
#include "backend/cuda/kernels/quantize.cuh"
#include "backend/cuda/loaded_memory.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/tables.h"
#include "base/clock.h"
#include "ops/ahead_ops.h"
#include "ops/ops.h"
#include "ops/parts.h"
#include "ops/sample_row.h"

namespace quire::cuda {

// Quantised rows of a product, and states of attention: what does not fit is done in runs of rows.
inline constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;

class CudaOps final : public Ops, public AheadOps, private Copier {
 public:
  // Code::exhausted where the device has no memory for the workspace.
  static Result<std::unique_ptr<Ops>> make(std::shared_ptr<Runtime> runtime,
                                           const SampleKernels& sums,
                                           CudaArithmetic arithmetic = CudaArithmetic::portable);
  ~CudaOps() override;

  std::string describe() const override;
  uint64_t numerics() const override;
  Result<Buffer> allocate(int64_t bytes) override;
  Result<Buffer> allocate_arena(int64_t bytes) override { return tables_.allocate(bytes); }
  Result<Buffer> allocate_blocks(int64_t bytes) override;
  int64_t free_bytes() override { return runtime_->free_bytes(); }
  void finish() override {
    if (!is_idle_) wait();
  }
  AheadOps* ahead() override { return this; }
  Status take_error() override;
  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) override;
  Result<Tensor> load_vector(const HostWeight& weight) override;
  Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override;
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
  void add_low_rank(Tensor y, Tensor x, const AddedProducts& added) override;
  void gated(Tensor y, Tensor gate, Tensor up, Activation act) override;
  void moe(Tensor y, const MoeInput& in, const Experts& experts) override;
  void rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) override;
  void rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) override;
  void kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) override;
  void pack_strips(Tensor slots, Tensor tails, const KvView& kv, const AttnParams& params) override;
  void attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) override;
  void attention(Tensor out, const NormedRows& in, const AttentionPart& part) override;
  void feed_forward(Tensor out, const NormedRows& in, const FeedForwardPart& part) override;
  void short_conv(Tensor y, Tensor x, const ShortConv& conv, const StateRows& rows) override;
  void scan(Tensor y, const ScanInput& in, const ScanParams& params, const StateRows& rows) override;
  void delta_rule(Tensor y, const DeltaInput& in, const DeltaParams& params, const StateRows& rows) override;
  void wkv(Tensor y, Tensor own, const WkvInput& in, const WkvParams& params, const StateRows& rows) override;
  void rows(Tensor y, Tensor x, Tensor ids) override;
  void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override;
  int64_t waited_ns() const override { return waited_ns_; }
  void pick(Tensor picked, Tensor logits, Tensor numbers) override;
  void take_picked(Tensor out, Tensor ids, Tensor picked, Tensor from) override;
  Result<Buffer> allocate_sent(int64_t bytes) override;
  void send(const StepRows& to, const StepRows& from, int slot) override;
  Status arrived(int slot) override;
  void sample_sent(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override;

 private:
  CudaOps(std::shared_ptr<Runtime> runtime, const SampleKernels& sums, CudaArithmetic arithmetic)
      : runtime_(std::move(runtime)),
        loaded_(std::make_shared<LoadedMemory>(runtime_)),
        block_copies_(runtime_),
        sums_(sums),
        arithmetic_(arithmetic),
        tables_(runtime_) {}
  Result<std::byte*> own_memory(int64_t bytes, Place place);  // until the end
  bool copy(std::byte* to, const std::byte* from, int64_t bytes) override;
  int64_t read(std::byte* to, const std::byte* from, int64_t bytes) override {
    return block_copies_.read(to, from, bytes);
  }
  int64_t write(std::byte* to, const std::byte* from, int64_t bytes) override {
    return block_copies_.write(to, from, bytes);
  }
  CopyState state(int64_t copy, bool waits) override { return block_copies_.state(copy, waits); }
  void begin_writes() override;
  void reuse(const std::byte* data, int64_t bytes) override;
  std::byte* pinned(int64_t bytes);
  Status load(std::byte* to, const void* from, int64_t bytes);
  Result<Tensor> keep_order(std::span<const int32_t> order);
  void wait();
  // Any wait of the host: it counts how long it took.
  void wait_by(const auto& how) {
    const int64_t start = clock_.now_ns();
    how();
    waited_ns_ += clock_.now_ns() - start;
  }
  // Something is asked of the device.
  void begin() {
    is_idle_ = false;
    if (std::exchange(is_behind_marks_, false)) loaded_->begun();
  }
  void forget_turns();

  // Brings the device's tables up to date where the host may have written to them.
  class Op {
   public:
    explicit Op(CudaOps& ops) {
      ops.begin();
      if (std::exchange(ops.has_new_tables_, false)) ops.tables_.upload();
    }
  };
  // The host reads these: of tables it may at any time.
  void expect_readable(const Tensor& t);
  // (cos, sin) of positions [0, n) by these frequencies, in device memory.
  struct Turns {
    std::vector<int64_t> freq;
    double magnitude;
    int64_t n = 0;
    std::byte* rows = nullptr;
  };
  const Turns* turns_up_to(int32_t last, std::span<const int64_t> freq, double magnitude);
  bool make_turns(Turns& turns, int64_t n);
  // Asks for copies, in pinned memory, of rows of numbers of four bytes.
  struct Brought {
    std::byte* to;
    Tensor rows;
  };
  void bring(std::span<const Brought> all);
  void sample_rows(std::span<Sampled> out, const Tensor& logits, std::span<const SampleParams> params);
  // of.row (kernels/states.cuh) over all rows, with what make(row, at) makes of each, n_made numbers.
  template <class Of, class Make>
  void run_made(const StateRows& rows, Of of, int64_t n_heads, int64_t n_made, const Make& make);
  AttendUses attend_uses() { return {*runtime_, tables_, slopes_, {workspace_, kWorkspaceBytes}, arithmetic_}; }
  void norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps);
  void multiply(const Tensor& y, const Tensor& x, std::span<const Linear> parts);
  // Room in the workspace for rows as products want them.
  QuantizedRows quantised_rows(int64_t n, int64_t n_in) const;
  QuantizedRows quantise(const Tensor& x, const Tensor& order);  // order: of all parts, as Linear has it
  // What norm_rows and what gated leave, quantised; empty where that takes more than one kernel.
  std::optional<QuantizedRows> norm_quantised(const NormedRows& in, std::span<const Linear> parts);
  std::optional<QuantizedRows> gated_quantised(const Tensor& gate,
                                               const Tensor& up,
                                               Activation act,
                                               std::span<const Linear> parts);
  // norm_rows and a product of what it leaves.
  void linear_of_normed(const Tensor& y, const NormedRows& in, std::span<const Linear> parts);
  // Parts next to each other that have one format, in y's columns from `column` on.
  void multiply_integers(const Tensor& y, const QuantizedRows& x, std::span<const Linear> parts, int64_t column);
  void multiply_few(const Tensor& y, const QuantizedRows& x, std::span<const Linear> parts, int64_t column);
  void multiply_all(const Tensor& y, const QuantizedRows& x, std::span<const Linear> parts);
  template <class W>
  void multiply_floats(const Tensor& y, const Tensor& x, const Linear& part);
  // Rows rounded to BF16, in the workspace behind those of quantised_rows; products of them; rows of a table.
  const uint16_t* rounded_rows(const Tensor& x);
  void multiply_tensor(const Tensor& y, const uint16_t* x, const Linear& part);
  void embed_tensor(const Tensor& y, const Tensor& ids, const Linear& table);

  std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<LoadedMemory> loaded_;  // adapters'
  BlockCopies block_copies_;
  const SampleKernels sums_;
  const CudaArithmetic arithmetic_;
  bool has_wgmma_ = false;  // and its sums are those of mma
  std::vector<std::byte*> memory_;
  std::vector<int32_t> last_order_;  // of columns, and where the device has it: matrices side by side share one
  Tensor last_order_there_;
  std::byte* workspace_ = nullptr;
  TableCopies tables_;
  Slopes slopes_;
  bool is_idle_ = true;          // nothing was asked for since the last wait
  bool is_behind_marks_ = true;  // nor since the last send
  bool has_new_tables_ = true;   // that the host may have written to: they are not on the device
  // What was sent in each slot and has not arrived.
  struct Sent {
    bool is_under_way = false;
    Status done;  // or what failed since
  };
  std::array<Sent, kMarks> sent_;
  std::vector<Turns> turns_;
  SystemClock clock_;
  int64_t waited_ns_ = 0;
  std::vector<float> made_;      // by the host, for an upload that is under way
  std::byte* pinned_ = nullptr;  // for copies of logits to the host
  int64_t pinned_bytes_ = 0;
  SampleScratch scratch_;
};

}  // namespace quire::cuda
