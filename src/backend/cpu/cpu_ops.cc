#include "backend/cpu/cpu_ops.h"

#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/held_numbers.h"
#include "base/clock.h"
#include "base/thread.h"
#include "ops/low_rank.h"
#include "ops/op_check.h"

namespace quire {
namespace {

constexpr int64_t kPanel = kPanelRows;

#ifndef QR_EMULATE_AVX512
// Linux lets a process use tile registers once it has asked for them: every thread's state grows by 8 KiB.
bool may_use_tiles() {
  constexpr int kTileData = 18;  // among the states of XCR0
#ifdef ARCH_REQ_XCOMP_PERM
  static const bool kMay = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0;
  return kMay;
#else
  return false;
#endif
}
#endif

bool cpu_supports(std::string_view isa) {
  __builtin_cpu_init();
#ifdef QR_EMULATE_AVX512
  if (isa == "avx512" || isa == "avx512_bf16" || isa == "amx") return cpu_supports("avx2");
#else
  if (isa == "amx") {
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") && cpu_supports("avx512") &&
           may_use_tiles();
  }
#endif
  if (isa == "avx512_bf16") return __builtin_cpu_supports("avx512bf16") && cpu_supports("avx512");
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

struct PanelSource {
  const std::byte* first;  // of its rows, one after another
  int64_t row_bytes, n_rows;
};

void pack_panel(const LinearKernels& kernels, const PanelSource& from, int64_t n_in, std::byte* to) {
  const std::byte* rows[kPanelRows] = {};
  for (int64_t r = 0; r < from.n_rows; ++r) rows[r] = from.first + r * from.row_bytes;
  kernels.pack(rows, n_in, to);
}

// Panel p of w, [nodes, panels on a node, bytes].
std::byte* panel_at(const Linear& w, int64_t p) {
  return w.w.data + p / w.w.dim(1) * w.w.stride[0] + p % w.w.dim(1) * w.w.stride[1];
}

// Panels of 16 outputs, [n_rows][16] each; zeros behind the last output.
void pack_low_rank_b(const Tensor& b, const LowRankSource& from) {
  const HeldAs held = held_as(b.dtype);
  const int64_t n_rows = b.dim(0), n_bytes = held_bytes(held);
  std::byte* to = b.data;
  for (int64_t first = 0; first < from.n_out; first += kPanel) {
    for (int64_t j = 0; j < n_rows; ++j) {
      for (int64_t o = first; o < first + kPanel; ++o, to += n_bytes) {
        hold(o < from.n_out ? from.b[static_cast<size_t>(o * n_rows + j)] : 0.0F, held, to);
      }
    }
  }
}

}  // namespace

// Cores of later years look further ahead by themselves (those with AVX-512 or AVX-VNNI: Zen 4, Alder Lake and since),
// so that what is asked for must be further still. Measured: docs/backend-cpu.md.
int64_t prefetch_bytes(const IsaTable& isa) {
  const bool is_late = cpu_supports("avx512") || __builtin_cpu_supports("avxvnni");
  return is_late && isa.isa != "amx" ? 2048 : 1024;
}

std::vector<Seat> seats_of(const CpuOptions& options) {
  std::vector<Seat> out = choose_seats(options.n_threads, options.pin);
  for (size_t i = 0; options.n_nodes > 0 && i < out.size(); ++i) out[i].node = static_cast<int>(i) % options.n_nodes;
  return out;
}

std::string CpuOps::describe() const {
  std::string out = "cpu " + std::string(isa_.isa) + ", " + std::to_string(pool_.n_threads()) +
                    (pool_.n_threads() == 1 ? " thread" : " threads") +
                    (pool_.n_nodes() == 1 ? "" : " on " + std::to_string(pool_.n_nodes()) + " memory nodes");
  const std::string pages = store_.describe_pages();
  return pages.empty() ? out : out + ", " + pages;
}

Result<Linear> CpuOps::load_linear(const HostWeight& weight, const HostWeight* bias, Shard shard) {
  QR_CHECK(shard.n_ranks == 1, "one rank only until the parallel room exists");
  Linear out;
  out.format = weight.format;
  out.n_out = weight.n_rows();
  out.n_in = weight.n_cols();
  const LinearKernels& kernels = kernels_of(out);
  const int64_t panel_bytes = kernels.panel_bytes(out.n_in);
  const int64_t n_panels = (out.n_out + kPanel - 1) / kPanel;
  const int64_t n_nodes = pool_.n_nodes();
  const int64_t on_node = n_nodes == 1 ? n_panels : (n_panels + 2 * n_nodes - 1) / (2 * n_nodes) * 2;
  QR_TRY(const WeightStore::Room room, store_.allocate(on_node * panel_bytes));
  out.w = Tensor::dense(room.data, DType::u8, {n_nodes, on_node, panel_bytes});
  out.w.stride[0] = room.stride;
  std::vector<int64_t> ends;
  for (int64_t node = 1; node <= n_nodes; ++node) ends.push_back(std::min(n_panels, node * on_node));
  pool_.run(ends, true, [&](int64_t p) {
    std::vector<std::byte> made;
    const int64_t n_rows = std::min(kPanel, out.n_out - p * kPanel);
    const std::byte* first = weight.rows(p * kPanel, n_rows, made);
    pack_panel(kernels, {first, weight.row_bytes(), n_rows}, out.n_in, panel_at(out, p));
  });
  if (!weight.order().empty()) {
    QR_TRY(out.order, keep_order(weight.order()));
  }
  if (bias != nullptr) {
    QR_TRY(out.bias, load_vector(*bias));
  }
  return out;
}

Result<Tensor> CpuOps::keep_order(std::span<const int32_t> order) {
  if (!last_order_.empty() && std::ranges::equal(last_order_.span<int32_t>(), order)) return last_order_;
  const auto n = std::ssize(order);
  QR_TRY(const WeightStore::Room room, store_.allocate(n * 4));
  last_order_ = Tensor::dense(room.data, DType::i32, {n});
  std::ranges::copy(order, last_order_.ptr<int32_t>());
  return last_order_;
}

Result<Tensor> CpuOps::load_vector(const HostWeight& weight) {
  const int64_t n = weight.n_rows() * weight.n_cols();
  QR_TRY(const WeightStore::Room room, store_.allocate(n * 4));
  Tensor out = Tensor::dense(room.data, DType::f32, {n});
  for (int64_t i = 0; i < n; i += weight.format->block) {
    weight.format->decode(weight.data.data() + i / weight.format->block * weight.format->bytes, out.ptr<float>() + i);
  }
  return out;
}

// On the caller's thread: the pool is the engine's, which goes on. Sizes are whole cache lines.
Result<Buffer> CpuOps::load_low_rank(std::span<const LowRankSource> from, std::span<LowRank> to) {
  const auto whole = [](int64_t n) { return (n + kPanel - 1) / kPanel; };
  const auto a_bytes = [&](size_t i) { return whole(from[i].rank) * kernels_of(to[i].a).panel_bytes(from[i].n_in); };
  const auto b_bytes = [&](size_t i) {
    return (to[i].b.dim(0) * whole(from[i].n_out) * kPanel * dtype_bytes(to[i].b.dtype) + 63) / 64 * 64;
  };
  int64_t n = 64;  // a buffer has one byte at least
  for (size_t i = 0; i < from.size(); ++i) {
    const LowRankSource& one = from[i];
    to[i].n_out = one.n_out;
    if (one.rank == 0) continue;
    to[i].a.format = held_format(narrowest(one.a));
    to[i].a.n_out = one.rank;
    to[i].a.n_in = one.n_in;
    to[i].b = Tensor::dense(nullptr, dtype_of(narrowest(one.b)), {numbers_per_output(one), one.n_out});
    n += a_bytes(i) + b_bytes(i);
  }
  QR_TRY(Buffer memory, Buffer::allocate(n));
  std::byte* at = memory.data();
  for (size_t i = 0; i < from.size(); ++i) {
    const LowRankSource& one = from[i];
    if (one.rank == 0) continue;
    to[i].a.w = Tensor::dense(at, DType::u8, {1, whole(one.rank), kernels_of(to[i].a).panel_bytes(one.n_in)});
    pack_low_rank_a(to[i].a, one);
    at += a_bytes(i);
    to[i].b.data = at;
    pack_low_rank_b(to[i].b, one);
    at += b_bytes(i);
  }
  return memory;
}

void CpuOps::pack_low_rank_a(const Linear& a, const LowRankSource& from) const {
  const HeldAs held = held_as(*a.format);
  const int64_t row_bytes = from.n_in * held_bytes(held);
  std::vector<std::byte> rows(static_cast<size_t>(kPanel * row_bytes));
  for (int64_t first = 0; first < from.rank; first += kPanel) {
    const int64_t n_rows = std::min(kPanel, from.rank - first);
    const float* numbers = from.a.data() + first * from.n_in;
    for (int64_t i = 0; i < n_rows * from.n_in; ++i) hold(numbers[i], held, rows.data() + i * held_bytes(held));
    pack_panel(kernels_of(a), {rows.data(), row_bytes, n_rows}, from.n_in, panel_at(a, first / kPanel));
  }
}

void CpuOps::embed(Tensor y, Tensor ids, const Linear& table) {
  check_embed(y, ids, table);
  const LinearKernels& kernels = kernels_of(table);
  for_rows(y.dim(0), y.dim(1), [&](int64_t i) {
    const int64_t id = ids.ptr<int32_t>()[i];
    kernels.unpack_row(panel_at(table, id / kPanel), static_cast<int>(id % kPanel), table.n_in, y.row<float>(i));
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

void CpuOps::layer_norm(Tensor y, Tensor x, Tensor w, Tensor b, float eps) {
  check_layer_norm(y, x, w, b);
  const NormRow norm{w.ptr<float>(), b.empty() ? nullptr : b.ptr<float>(), eps};
  for_rows(x.dim(0), x.dim(1),
           [&](int64_t i) { row_.layer_norm_row(y.row<float>(i), x.row<float>(i), x.dim(1), norm); });
}

void CpuOps::gate_rows(Tensor x, Tensor gate) {
  check_gate_rows(x, gate);
  for_rows(x.dim(0), x.dim(1), [&](int64_t i) {
    const double by = 1.0 / (1.0 + std::exp(-static_cast<double>(gate.row<float>(i)[0])));
    row_.scale_row(x.row<float>(i), x.dim(1), static_cast<float>(by));
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

void CpuOps::rows(Tensor y, Tensor x, Tensor ids) {
  check_rows(y, x, ids);
  for (int64_t i = 0; i < y.dim(0); ++i) {
    std::memcpy(y.row<float>(i), x.row<float>(ids.ptr<int32_t>()[i]), static_cast<size_t>(x.dim(1)) * sizeof(float));
  }
}

void CpuOps::sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) {
  check_sample(logits, out.size(), params.size());
  const SampleKernels kernels{row_.block_max, row_.exp_row};
  for (SampleScratch& of_thread : scratch_) of_thread.reserve(logits.dim(1));
  pool_.run(logits.dim(0), [&](int64_t i, int thread) {
    const auto r = static_cast<size_t>(i);
    const std::span<float> row(logits.row<float>(i), static_cast<size_t>(logits.dim(1)));
    sample_row(row, params[r], kernels, scratch_[static_cast<size_t>(thread)], out[r]);
  });
}

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
  // VDPBF16PS starts every other cycle on Intel's CPUs, where f32 is twice as fast.
  if (out.back() == "avx512_bf16" && !__builtin_cpu_is("amd")) std::swap(out.back(), *(out.end() - 2));
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
  if (options.n_nodes < 0 || options.n_nodes > options.n_threads) {
    return fail(Code::invalid, "memory nodes must be at most the " + std::to_string(options.n_threads) +
                                   " threads, got " + std::to_string(options.n_nodes));
  }
  for (const IsaTable& table : isa_tables()) {
    if (table.isa == options.isa && cpu_supports(table.isa)) return Resolved{&table, options};
  }
  std::string known;
  for (const std::string& isa : isas) known += " " + isa;
  return fail(Code::unsupported, "instruction set " + options.isa + " is not available here; there are:" + known);
}

}  // namespace

SampleKernels cpu_sample_kernels() {
  CpuOptions options;
  options.n_threads = 1;
  const ElementwiseKernels& rows = *resolve(options)->table->elementwise;
  return {rows.block_max, rows.exp_row};
}

namespace {

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

// On a thread of its own that sits where the pool expects its caller: one that happens to share a worker's CPU would
// measure half.
Result<CpuPeak> measure_cpu_peak(const CpuOptions& options) {
  QR_TRY(const Resolved resolved, resolve(options));
  CpuPeak peak;
  const std::vector<int> cpus = resolved.options.pin ? cpus_for(resolved.options.n_threads) : std::vector<int>();
  std::thread([&] {
    WorkerPool pool(seats_of(resolved.options));  // which looks at the CPUs that its maker may use
    if (!cpus.empty()) static_cast<void>(pin_thread(cpus.front()));
    const ElementwiseKernels& row = *resolved.table->elementwise;
    peak.int8 = rate(pool, row.spin_int8);
    peak.f32 = rate(pool, row.spin_f32);
    peak.bf16 = row.spin_bf16 == row.spin_f32 ? peak.f32 : rate(pool, row.spin_bf16);
    peak.fork_ns = fork_ns(pool);
  }).join();
  return peak;
}

}  // namespace quire
