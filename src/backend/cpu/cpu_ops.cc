#include "backend/cpu/cpu_ops.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cpu/attention_tasks.h"
#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/linear_work.h"
#include "backend/cpu/pool.h"
#include "backend/cpu/weight_store.h"
#include "base/clock.h"
#include "base/thread.h"
#include "ops/op_check.h"
#include "ops/route.h"
#include "ops/sample_row.h"

namespace quire {
namespace {

constexpr int64_t kPanel = kPanelRows;

bool cpu_supports(std::string_view isa) {
  __builtin_cpu_init();
#ifdef QR_EMULATE_AVX512
  if (isa == "avx512") return cpu_supports("avx2");
#endif
  if (isa == "avx512") {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") && cpu_supports("avx2");
  }
  if (isa == "avx2") {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  }
  return isa == "scalar";
}

template <class T>
const T& by_name(std::span<const T* const> table, std::string_view T::* name, std::string_view wanted) {
  const auto at = std::find_if(table.begin(), table.end(), [&](const T* entry) { return entry->*name == wanted; });
  QR_CHECK(at != table.end(), std::string(wanted));
  return **at;
}

class CpuOps final : public Ops {
 public:
  CpuOps(const IsaTable& isa, const CpuOptions& options)
      : isa_(isa), row_(*isa.elementwise), pool_(options.n_threads, options.pin), scratch_(1) {}

  std::string describe() const override {
    std::string out = "cpu " + std::string(isa_.isa) + ", " + std::to_string(pool_.n_threads()) +
                      (pool_.n_threads() == 1 ? " thread" : " threads");
    const std::string pages = store_.describe_pages();
    return pages.empty() ? out : out + ", " + pages;
  }
  int64_t n_forks() const { return pool_.n_forks(); }
  // One vector more than asked for: attention may read past the last value row when its size is no multiple of 16.
  Result<Buffer> allocate(int64_t bytes) override { return Buffer::allocate(bytes + 64); }

  Result<Linear> load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) override;
  Result<Tensor> load_vector(const HostWeight& weight) override;
  void embed(Tensor y, Tensor ids, const Linear& table) override;
  void rms_norm(Tensor y, Tensor x, Tensor w, float eps) override;
  void add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) override;
  void head_norm(Tensor x, Tensor w, float eps) override;
  void scale(Tensor x, float factor) override;
  void soft_cap(Tensor x, float cap) override;
  void add(Tensor x, Tensor delta) override;
  void linear(Tensor y, Tensor x, std::span<const Linear> parts) override;
  void gated(Tensor y, Tensor gate, Tensor up, Activation act) override;
  void moe(Tensor y, const MoeInput& in, const Experts& experts) override;
  void rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) override;
  void rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) override;
  void kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) override;
  void attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) override;
  void rows(Tensor y, Tensor x, Tensor ids) override;
  void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override;

 private:
  // fn(row) over n rows, in runs long enough to be worth a fork.
  template <class Fn>
  void for_rows(int64_t n, int64_t row_elements, Fn&& fn) {
    const int64_t per_task = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_elements));
    const int64_t n_tasks = (n + per_task - 1) / per_task;
    pool_.run(n_tasks, [&](int64_t task) {
      const int64_t end = std::min(n, (task + 1) * per_task);
      for (int64_t i = task * per_task; i < end; ++i) fn(i);
    });
  }
  QuantRows quantize(const Tensor& x);
  template <class Parts>
  void run_experts(const Tensor& y, const Tensor& x, Parts&& parts_of);
  const LinearKernels& kernels_of(const Linear& linear) const {
    return by_name(isa_.linear, &LinearKernels::format, linear.format->name);
  }

  const IsaTable& isa_;
  const ElementwiseKernels& row_;
  WorkerPool pool_;
  WeightStore store_;
  std::vector<int8_t> quants_;
  std::vector<float> quant_scales_;
  std::vector<int32_t> quant_sums_, quant_half_sums_;
  std::vector<float> quant_scaled_sums_;
  std::vector<SampleScratch> scratch_;
  AttentionTasks attention_tasks_;
  LinearWork work_;
  Routes routes_;
};

Result<Linear> CpuOps::load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) {
  QR_CHECK(shard.n_ranks == 1, "one rank only until the parallel room exists");
  Linear out;
  out.format = weight.format;
  out.n_out = weight.n_rows();
  out.n_in = weight.n_cols();
  const LinearKernels& kernels = kernels_of(out);
  const int64_t panel_bytes = kernels.panel_bytes(out.n_in);
  const int64_t n_panels = (out.n_out + kPanel - 1) / kPanel;
  QR_TRY(std::byte * panels, store_.allocate(n_panels * panel_bytes));
  const int64_t row_bytes = weight.format->row_bytes(out.n_in);
  pool_.run(n_panels, [&](int64_t p) {
    const std::byte* rows[kPanelRows];
    for (int64_t r = 0; r < kPanel; ++r) {
      const int64_t row = p * kPanel + r;
      rows[r] = row < out.n_out ? weight.data.data() + row * row_bytes : nullptr;
    }
    kernels.pack(rows, out.n_in, panels + p * panel_bytes);
  });
  out.w = Tensor::dense(panels, DType::u8, {n_panels, panel_bytes});
  if (bias != nullptr) {
    QR_TRY(out.bias, load_vector(*bias));
  }
  return out;
}

Result<Tensor> CpuOps::load_vector(const HostWeight& weight) {
  const int64_t n = weight.n_rows() * weight.n_cols();
  QR_TRY(std::byte * data, store_.allocate(n * 4));
  Tensor out = Tensor::dense(data, DType::f32, {n});
  for (int64_t i = 0; i < n; i += weight.format->block) {
    weight.format->decode(weight.data.data() + i / weight.format->block * weight.format->bytes, out.ptr<float>() + i);
  }
  return out;
}

void CpuOps::embed(Tensor y, Tensor ids, const Linear& table) {
  check_embed(y, ids, table);
  const LinearKernels& kernels = kernels_of(table);
  for_rows(y.dim(0), y.dim(1), [&](int64_t i) {
    const int64_t id = ids.ptr<int32_t>()[i];
    const std::byte* panel = table.w.data + id / kPanel * table.w.stride[0];
    kernels.unpack_row(panel, static_cast<int>(id % kPanel), table.n_in, y.row<float>(i));
  });
}

void CpuOps::rms_norm(Tensor y, Tensor x, Tensor w, float eps) {
  check_norm(y, x, w);
  for_rows(x.dim(0), x.dim(1),
           [&](int64_t i) { row_.rms_norm_row(y.row<float>(i), x.row<float>(i), w.ptr<float>(), x.dim(1), eps); });
}

void CpuOps::add_rms_norm(Tensor y, Tensor x, Tensor delta, Tensor w, float eps) {
  check_norm(y, x, w);
  check_same_shape(x, delta);
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) {
    row_.add_row(x.row<float>(i), delta.row<float>(i), x.dim(1));
    row_.rms_norm_row(y.row<float>(i), x.row<float>(i), w.ptr<float>(), x.dim(1), eps);
  });
}

void CpuOps::head_norm(Tensor x, Tensor w, float eps) {
  check_head_norm(x, w);
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) {
    for (int64_t h = 0; h < x.dim(1); h += w.dim(0)) {
      float* head = x.row<float>(i) + h;
      row_.rms_norm_row(head, head, w.ptr<float>(), w.dim(0), eps);
    }
  });
}

void CpuOps::scale(Tensor x, float factor) {
  check_matrix_f32(x);
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) { row_.scale_row(x.row<float>(i), x.dim(1), factor); });
}

void CpuOps::soft_cap(Tensor x, float cap) {
  check_matrix_f32(x);
  QR_CHECK(cap > 0.0F);
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) { row_.soft_cap_row(x.row<float>(i), x.dim(1), cap); });
}

void CpuOps::add(Tensor x, Tensor delta) {
  check_same_shape(x, delta);
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) { row_.add_row(x.row<float>(i), delta.row<float>(i), x.dim(1)); });
}

QuantRows CpuOps::quantize(const Tensor& x) {
  const int64_t n_groups = x.dim(1) / kPanelDepth;
  const auto n = static_cast<size_t>(x.dim(0) * n_groups);
  if (quant_scales_.size() < n) {
    quants_.resize(n * kPanelDepth);
    quant_scales_.resize(n);
    quant_sums_.resize(n);
    quant_half_sums_.resize(2 * n);
    quant_scaled_sums_.resize(n);
  }
  const QuantRows out{.q = quants_.data(),
                      .scale = quant_scales_.data(),
                      .sum = quant_sums_.data(),
                      .half_sum = quant_half_sums_.data(),
                      .scaled_sum = quant_scaled_sums_.data(),
                      .n_groups = n_groups};
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) { row_.quantize_row(x.row<float>(i), out, i); });
  return out;
}

void CpuOps::linear(Tensor y, Tensor x, std::span<const Linear> parts) {
  check_linear(y, x, parts);
  if (x.dim(0) == 0) return;
  const bool any_integer = std::any_of(parts.begin(), parts.end(), [](const Linear& p) { return p.format->integer; });
  const QuantRows xq = any_integer ? quantize(x) : QuantRows{};
  work_.clear();
  int64_t column = 0;
  for (const Linear& part : parts) {
    work_.add(part, kernels_of(part), x, xq, y.columns(column, part.n_out));
    column += part.n_out;
  }
  work_.run(pool_);
}

// The products of each expert's gathered rows of x with parts_of(expert), in one fork.
template <class Parts>
void CpuOps::run_experts(const Tensor& y, const Tensor& x, Parts&& parts_of) {
  bool any_integer = false;
  for (size_t e = 0; e < routes_.n_experts(); ++e) {
    if (routes_.count(e) == 0) continue;
    for (const Linear& part : parts_of(e)) any_integer |= part.format->integer;
  }
  const QuantRows xq = any_integer ? quantize(x) : QuantRows{};
  const LinearKernels* kernels = nullptr;
  work_.clear();
  for (size_t e = 0; e < routes_.n_experts(); ++e) {
    if (routes_.count(e) == 0) continue;
    const Tensor mine = x.rows(routes_.begin(e), routes_.count(e));
    int64_t column = 0;
    for (const Linear& part : parts_of(e)) {
      if (kernels == nullptr || kernels->format != part.format->name) kernels = &kernels_of(part);
      const Tensor out = y.rows(routes_.begin(e), routes_.count(e)).columns(column, part.n_out);
      work_.add(part, *kernels, mine, xq.from(routes_.begin(e)), out);
      column += part.n_out;
    }
  }
  work_.run(pool_);
}

void CpuOps::moe(Tensor y, const MoeInput& in, const Experts& experts) {
  check_moe(y, in, experts);
  if (y.dim(0) == 0) return;
  routes_.make(in.router, experts.routing);
  const int64_t row_elements = y.dim(1) * experts.routing.n_used;
  const MoeScratch at(in.scratch, y.dim(1), experts.down.front().n_in);
  for_rows(y.dim(0), row_elements, [&](int64_t i) { gather_row(routes_, i, in.x, at.x); });
  run_experts(at.gate_up, at.x, [&](size_t e) { return std::span<const Linear>(experts.gate_up[e]); });
  gated(at.hidden, at.gate, at.up, experts.activation);
  run_experts(at.result, at.hidden, [&](size_t e) { return std::span(&experts.down[e], 1); });
  for_rows(y.dim(0), row_elements, [&](int64_t i) { mix_row(routes_, i, at.result, y); });
}

void CpuOps::gated(Tensor y, Tensor gate, Tensor up, Activation act) {
  check_same_shape(gate, up);
  check_same_shape(y, gate);
  const auto run = act == Activation::silu ? row_.silu_mul_row : row_.gelu_tanh_mul_row;
  for_rows(y.dim(0), y.dim(1),
           [&](int64_t i) { run(y.row<float>(i), gate.row<float>(i), up.row<float>(i), y.dim(1)); });
}

void CpuOps::rope_table(Tensor out, Tensor pos, Tensor freq, double magnitude) {
  check_rope_table(out, pos, freq);
  for_rows(pos.dim(0), freq.dim(0) * 32, [&](int64_t i) {
    for (int64_t f = 0; f < freq.dim(0); ++f) {
      const double angle = pos.ptr<int32_t>()[i] * std::bit_cast<double>(freq.ptr<int64_t>()[f]);
      float* at = out.ptr<float>() + (i * freq.dim(0) + f) * 2;
      at[0] = static_cast<float>(magnitude * std::cos(angle));
      at[1] = static_cast<float>(magnitude * std::sin(angle));
    }
  });
}

void CpuOps::rope(Tensor x, Tensor table, int head_dim, RopePairs pairs) {
  check_rope(x, table, head_dim);
  const int64_t n_freq = table.dim(1);
  const int64_t step = pairs == RopePairs::interleaved ? 2 : 1;
  const int64_t apart = pairs == RopePairs::interleaved ? 1 : n_freq;
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) {
    const float* turn = table.ptr<float>() + i * n_freq * 2;
    for (int64_t h = 0; h < x.dim(1); h += head_dim) {
      float* head = x.row<float>(i) + h;
      for (int64_t f = 0; f < n_freq; ++f) {
        const float a = head[f * step];
        const float b = head[f * step + apart];
        head[f * step] = a * turn[2 * f] - b * turn[2 * f + 1];
        head[f * step + apart] = a * turn[2 * f + 1] + b * turn[2 * f];
      }
    }
  });
}

void CpuOps::kv_write(Tensor k, Tensor v, Tensor slots, const KvView& kv, const AttnParams& params) {
  check_kv_write(k, v, slots, kv, params);
  const KvGroupView& view = kv.groups[static_cast<size_t>(params.group)];
  for_rows(k.dim(0), k.dim(1) * 4, [&](int64_t i) {
    const int64_t slot = slots.ptr<int32_t>()[i];
    const int64_t in_block = slot % view.block_tokens;
    std::byte* claim = view.base + slot / view.block_tokens * view.block_bytes + params.kv_offset * view.block_tokens;
    const int t = static_cast<int>(in_block % kKvGroup);
    for (int h = 0; h < params.n_kv_heads; ++h) {
      const HeadOffsets at = head_offsets(params, h, view.block_tokens);
      const int64_t first = in_block - t;
      params.k_codec->put_k(claim + at.k + first * params.k_codec->row_bytes(params.k_dim), t, params.k_dim,
                            k.row<float>(i) + int64_t{h} * params.k_dim);
      params.v_codec->put_v(claim + at.v + first * params.v_codec->row_bytes(params.v_dim), t, params.v_dim,
                            v.row<float>(i) + int64_t{h} * params.v_dim);
    }
  });
}

void CpuOps::attend(Tensor out, Tensor q, const KvView& kv, const AttnMeta& meta, const AttnParams& params) {
  check_attend(out, q, meta, params);
  QR_CHECK(params.k_codec == params.v_codec, "one codec for K and V until mixed kernels exist");
  const KvGroupView& view = kv.groups[static_cast<size_t>(params.group)];
  const AttentionKernels& kernels = by_name(isa_.attention, &AttentionKernels::codec, params.k_codec->name);
  const int n_group = params.n_heads / params.n_kv_heads;
  attention_tasks_.cut(meta, params, pool_.n_threads());

  const auto task_of = [&](const AttentionTasks::Tile& tile, int h) {
    const HeadOffsets at = head_offsets(params, h, view.block_tokens);
    return AttentionTask{.kv = view.base + params.kv_offset * view.block_tokens,
                         .block_bytes = view.block_bytes,
                         .block_tokens = view.block_tokens,
                         .blocks = meta.blocks[static_cast<size_t>(params.group)].row<int32_t>(tile.sequence),
                         .k_offset = at.k,
                         .v_offset = at.v,
                         .k_row_bytes = params.k_codec->row_bytes(params.k_dim),
                         .v_row_bytes = params.v_codec->row_bytes(params.v_dim),
                         .q = q.ptr<float>() + int64_t{h} * n_group * params.k_dim,
                         .q_stride = q.stride[0],
                         .out = out.ptr<float>() + int64_t{h} * n_group * params.v_dim,
                         .out_stride = out.stride[0],
                         .first_key = meta.first_key.ptr<int32_t>(),
                         .end_key = meta.end_key.ptr<int32_t>(),
                         .row_begin = tile.row_begin,
                         .row_end = tile.row_end,
                         .n_group = n_group,
                         .k_dim = params.k_dim,
                         .v_dim = params.v_dim,
                         .scale = params.scale,
                         .soft_cap = params.soft_cap,
                         .window = params.window,
                         .first_chunk = tile.first_chunk,
                         .end_chunk = tile.end_chunk,
                         .states = attention_tasks_.states(tile, params, h),
                         .n_states = tile.end_chunk - tile.first_chunk,
                         .states_chunk = tile.first_chunk};
  };
  const auto spans = attention_tasks_.spans();
  const auto tiles = attention_tasks_.tiles();
  const int64_t n_heads = params.n_kv_heads;
  pool_.run(static_cast<int64_t>(spans.size()) * n_heads, [&](int64_t i) {
    const AttentionTasks::Span& span = spans[static_cast<size_t>(i / n_heads)];
    AttentionTask task = task_of(tiles[static_cast<size_t>(span.tile)], static_cast<int>(i % n_heads));
    task.first_chunk = span.first_chunk;
    task.end_chunk = span.end_chunk;
    kernels.run(task);
  });
  if (!attention_tasks_.any_cut()) return;
  pool_.run(static_cast<int64_t>(tiles.size()) * n_heads, [&](int64_t i) {
    const AttentionTask task = task_of(tiles[static_cast<size_t>(i / n_heads)], static_cast<int>(i % n_heads));
    if (task.states != nullptr) kernels.join(task);
  });
}

void CpuOps::rows(Tensor y, Tensor x, Tensor ids) {
  check_rows(y, x, ids);
  for (int64_t i = 0; i < y.dim(0); ++i) {
    std::memcpy(y.row<float>(i), x.row<float>(ids.ptr<int32_t>()[i]), static_cast<size_t>(x.dim(1)) * sizeof(float));
  }
}

void CpuOps::sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) {
  check_sample(logits, out.size(), params.size());
  const SampleKernels kernels{row_.block_max, row_.exp_row};
  if (scratch_.size() < out.size()) scratch_.resize(out.size());
  pool_.run(logits.dim(0), [&](int64_t i) {
    const auto r = static_cast<size_t>(i);
    const std::span<float> row(logits.row<float>(i), static_cast<size_t>(logits.dim(1)));
    sample_row(row, params[r], kernels, scratch_[r], out[r]);
  });
}

}  // namespace

int64_t cpu_forks(const Ops& ops) {
  const auto* cpu = dynamic_cast<const CpuOps*>(&ops);
  QR_CHECK(cpu != nullptr);
  return cpu->n_forks();
}

int64_t cpu_linear_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in) {
  const LinearKernels& kernels = by_name(isa_tables().front().linear, &LinearKernels::format, format.name);
  return (n_out + kPanel - 1) / kPanel * kernels.panel_bytes(n_in);
}

std::vector<std::string> cpu_isas() {
  std::vector<std::string> out;
  for (const IsaTable& table : isa_tables()) {
    if (cpu_supports(table.isa)) out.emplace_back(table.isa);
  }
  return out;
}

namespace {

struct Resolved {
  const IsaTable* table;
  CpuOptions options;
};

Result<Resolved> resolve(CpuOptions options) {
  const std::vector<std::string> isas = cpu_isas();
  if (options.isa.empty()) options.isa = isas.back();
  if (options.n_threads == 0) options.n_threads = n_usable_cores();
  if (options.n_threads < 1 || options.n_threads > 512) {
    return fail(Code::invalid, "threads must be 1 to 512, got " + std::to_string(options.n_threads));
  }
  for (const IsaTable& table : isa_tables()) {
    if (table.isa == options.isa && cpu_supports(table.isa)) return Resolved{&table, options};
  }
  std::string known;
  for (const std::string& isa : isas) known += " " + isa;
  return fail(Code::unsupported, "instruction set " + options.isa + " is not available here; there are:" + known);
}

double rate(WorkerPool& pool, int64_t (*spin)(int64_t rounds)) {
  SystemClock clock;
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    std::atomic<int64_t> n_ops{0};
    const int64_t start = clock.now_ns();
    pool.run(pool.n_threads(), [&](int64_t) { n_ops += spin(2'000'000); });
    best = std::max(best, static_cast<double>(n_ops) / (static_cast<double>(clock.now_ns() - start) * 1e-9));
  }
  return best;
}

// The least of a few means: a thread that loses its core in between says nothing about the fork.
double fork_ns(WorkerPool& pool) {
  if (pool.n_threads() == 1) return 0;
  constexpr int kForks = 2000;
  SystemClock clock;
  double best = INFINITY;
  for (int pass = 0; pass < 20; ++pass) {
    const int64_t start = clock.now_ns();
    for (int i = 0; i < kForks; ++i) pool.run(pool.n_threads(), [](int64_t) {});
    best = std::min(best, static_cast<double>(clock.now_ns() - start) / kForks);
  }
  return best;
}

}  // namespace

Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOptions& options) {
  QR_TRY(const Resolved resolved, resolve(options));
  return std::make_unique<CpuOps>(*resolved.table, resolved.options);
}

Result<CpuPeak> measure_cpu_peak(const CpuOptions& options) {
  QR_TRY(const Resolved resolved, resolve(options));
  WorkerPool pool(resolved.options.n_threads, resolved.options.pin);
  return CpuPeak{.int8 = rate(pool, resolved.table->elementwise->spin_int8),
                 .f32 = rate(pool, resolved.table->elementwise->spin_f32),
                 .fork_ns = fork_ns(pool)};
}

}  // namespace quire
