// The class behind make_cpu_ops(): every op of the seam as tasks of one fork or of few. Split over files by what an op
// computes: cpu_ops.cc (rows, loading, making), cpu_products.cc (products and what stands between two of them),
// cpu_attention.cc (heads and the cache), cpu_states.cc (layers with a state).
// Owner: the backend's caller; kernels run on the pool's threads between fork and join.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cpu/attention_tasks.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/gated_work.h"
#include "backend/cpu/held_numbers.h"
#include "backend/cpu/kernels/low_rank_tables.h"
#include "backend/cpu/kernels/state_tables.h"
#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/linear_work.h"
#include "backend/cpu/low_rank_work.h"
#include "backend/cpu/pool.h"
#include "backend/cpu/quant_buffer.h"
#include "backend/cpu/unit_counts.h"
#include "backend/cpu/weight_store.h"
#include "ops/parts.h"
#include "ops/route.h"
#include "ops/sample_row.h"

namespace quire {

template <class T>
const T& by_name(std::span<const T* const> table, std::string_view T::* name, std::string_view wanted) {
  const auto at = std::find_if(table.begin(), table.end(), [&](const T* entry) { return entry->*name == wanted; });
  QR_CHECK(at != table.end(), std::string(wanted));
  return **at;
}

// How far ahead products ask for weights, on this machine.
int64_t prefetch_bytes(const IsaTable& isa);
// Where the threads that options ask for sit.
std::vector<Seat> seats_of(const CpuOptions& options);

class CpuOps final : public Ops {
 public:
  CpuOps(const IsaTable& isa, const CpuOptions& options)
      : isa_(isa),
        row_(*isa.elementwise),
        states_(by_name(state_kernels(), &StateKernels::isa, isa.isa)),
        low_rank_kernels_(by_name(low_rank_kernels(), &LowRankKernels::isa, isa.isa)),
        pool_(seats_of(options)),
        store_(pool_.n_nodes()),
        input_quants_(isa),
        inner_quants_(isa),
        scratch_(static_cast<size_t>(pool_.n_threads())),
        work_(prefetch_bytes(isa)),
        low_rank_(low_rank_kernels_),
        gated_work_(prefetch_bytes(isa)) {}

  std::string describe() const override;
  int64_t n_forks() const { return pool_.n_forks(); }
  // One vector more than asked for: attention may read past the last value row when its size is no multiple of 16.
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes + 64); }

  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) override;
  Result<Tensor> load_vector(const HostWeight& weight) override;
  Result<Buffer> load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) override;
  void embed(Tensor y, Tensor ids, const Linear& table) override;
  void rms_norm(Tensor y, Tensor x, Tensor w, float eps) override;
  void add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) override;
  void layer_norm(Tensor y, Tensor x, Tensor w, Tensor b, float eps) override;
  void head_norm(Tensor x, Tensor w, float eps) override;
  void scale(Tensor x, float factor) override;
  void gate_rows(Tensor x, Tensor gate) override;
  void soft_cap(Tensor x, float cap) override;
  void add(Tensor x, Tensor delta) override;
  void linear(Tensor y, Tensor x, std::span<const Linear> parts) override;
  void add_low_rank(Tensor y, Tensor x, const AddedProducts& added) override;
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
  void wkv(Tensor y, Tensor own, const WkvInput& in, const WkvParams& params, const StateRows& rows) override;
  void rows(Tensor y, Tensor x, Tensor ids) override;
  void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override;
  void each(int64_t n, const std::function<void(int64_t)>& task) override {
    pool_.run(n, [&](int64_t i) { task(i); });
  }

 private:
  // fn(row), or fn(row, thread), over n rows, in runs long enough to be worth a fork.
  template <class Fn>
  void for_rows(int64_t n, int64_t row_elements, Fn&& fn) {
    const int64_t per_task = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_elements));
    const int64_t n_tasks = (n + per_task - 1) / per_task;
    pool_.run(n_tasks, [&](int64_t task, int thread) {
      const int64_t end = std::min(n, (task + 1) * per_task);
      for (int64_t i = task * per_task; i < end; ++i) {
        if constexpr (std::is_invocable_v<Fn&, int64_t, int>) {
          fn(i, thread);
        } else {
          fn(i);
        }
      }
    });
  }
  // A as its format wants it; REQUIRES a.w.
  void pack_low_rank_a(const Linear& a, const LowRankSource& from) const;
  // Of a part's input; quantised or rounded too where one of the products that follow wants that.
  QuantRows norm_and_quantize(const NormedRows& in, std::span<const Linear> products);
  // order: as of a weight (Linear::order).
  void quantize(const Tensor& x, const QuantRows& out, const Tensor& order);
  // A row of x in `order`, for as long as its thread asks for no other; x itself where there is none. REQUIRES
  // make_room_in_order() before the fork.
  const float* in_order(const float* x, const Tensor& order, int thread);
  void make_room_in_order(const Tensor& order);
  // The same memory for the same order as the last one: weights that share their input mostly share their order.
  Result<Tensor> keep_order(std::span<const int32_t> order);
  // Whether any weight that was loaded has its columns in an order of its own.
  bool keeps_orders() const { return !last_order_.empty(); }
  // Room for n rows that are input of all these products, in the forms that they want.
  QuantRows quant_rows(QuantBuffer& buffer, int64_t n, std::span<const Linear> products) const;
  // The products of x with all parts, ready to run; xq: x in the forms that they want.
  void set_work(const Tensor& y, const Tensor& x, const QuantRows& xq, std::span<const Linear> parts);
  // A·x of the rows of x that have an adapter. It takes work_, so that it comes before set_work().
  void set_low_rank(const AddedProducts& added, const Tensor& x) {
    const auto kernels = [this](const Linear& a) -> const LinearKernels& { return kernels_of(a); };
    low_rank_.multiply(added, x, kernels, work_, pool_);
  }
  // work_, into y, with what that adds; then done(), as of LinearWork::run.
  template <class Tell>
  void run_work(const Tensor& y, Tell&& done) {
    if (low_rank_.empty()) return work_.run(pool_, done);
    work_.run(
        pool_, [&](const LinearWork::Done& at) { low_rank_.ask_for(columns_of(y, at)); },
        [&](const LinearWork::Done& at) {
          low_rank_.add_to(columns_of(y, at));
          done(at);
        });
  }
  static SomeColumns columns_of(const Tensor& y, const LinearWork::Done& at) {
    return {at.begin, at.end, at.first_row, at.end_row, y.row<float>(at.first_row) + at.begin, y.stride[0]};
  }
  // A part's last product, of x with what comes by xq.
  void last_product(const Tensor& out,
                    const Tensor& x,
                    const QuantRows& xq,
                    std::span<const Linear> parts,
                    const AddedProducts& added);
  // Attention, whose results are quantised or rounded as well where xq has room for that.
  void attend(const Tensor& out, const Tensor& q, const AttentionPart& part, const QuantRows& xq);
  // scan() of ScanParams::by_component.
  void scan_columns(const Tensor& y, const ScanInput& in, const ScanParams& params, const StateRows& rows);
  // A head of q, k or v whose columns are all there: its norm, its rotation, its way into the cache.
  void finish_head(int64_t head, const AttentionScratch& at, const AttentionPart& part, float eps);
  // What a gated unit makes, [n, n_ff]: itself where a product reads that, and in the forms that others want.
  struct Hidden {
    Tensor rows;
    bool is_kept;
    QuantRows quants;
  };
  // A unit's columns of hidden = act(gate) · up.
  void finish_gate(const GatedUnit& unit, Activation activation, const Hidden& to);
  // Memory for what finish_gate() adds to these columns of gates and ups, n_ff of each.
  void ask_for_gate(const GatedWork::Columns& of, int64_t n_ff) const;
  const LinearKernels& kernels_of(const Linear& linear) const {
    if (linear.format == &exact_bf16()) return low_rank_kernels_.bf16;
    return by_name(isa_.linear, &LinearKernels::format, linear.format->name);
  }
  const AttentionKernels& kernels_of(const KvCodec* codec) const {
    return by_name(isa_.attention, &AttentionKernels::codec, codec->name);
  }

  const IsaTable& isa_;
  const ElementwiseKernels& row_;
  const StateKernels& states_;
  const LowRankKernels& low_rank_kernels_;
  WorkerPool pool_;
  WeightStore store_;
  QuantBuffer input_quants_, inner_quants_;  // of an op's input, and of what a fused op hands on to its last product
  std::vector<SampleScratch> scratch_;
  AttentionTasks attention_tasks_;
  std::vector<float> slopes_;  // of attend's heads, where scores have any
  LinearWork work_;
  LowRankWork low_rank_;
  GatedWork gated_work_;
  UnitCounts units_;
  Routes routes_;
  std::vector<size_t> chosen_;  // experts that rows were routed to
  Tensor last_order_;
  std::vector<float> ordered_;  // a row for each thread: one of x in a weight's order
  std::vector<float> steps_;    // what a scan or a rule makes of its rows, for its tasks
};

}  // namespace quire
