// Layers that keep a state, in the shape of Granite 4 H 1B: bytes/s of states that are read and written (what decode is
// limited by) and operations/s (what prefill is). Compare with the bandwidth and the f32 peak that `quire bench` probes
// on the same machine.
#include <benchmark/benchmark.h>

#include <string>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"

namespace quire {
namespace {

constexpr int kHeads = 48, kHeadDim = 64, kStateDim = 128, kTaps = 4;
constexpr int64_t kInner = int64_t{kHeads} * kHeadDim, kConv = kInner + 2 * kStateDim;

std::vector<float> numbers(int64_t n, uint64_t seed, float spread) {
  Rng rng(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = rng.normal() * spread;
  return out;
}

Tensor ints(std::vector<int32_t>& v) { return Tensor::dense(v.data(), DType::i32, {static_cast<int64_t>(v.size())}); }
Tensor matrix(std::vector<float>& v, int64_t n, int64_t d) { return Tensor::dense(v.data(), DType::f32, {n, d}); }

// n_seqs sequences of n_rows each go on from a state of their own.
struct Work {
  Work(Ops& ops, int n_seqs, int n_rows, int64_t state_floats)
      : n(int64_t{n_seqs} * n_rows),
        memory(*ops.allocate(n_seqs * state_floats * 4)),
        view{memory.data(), state_floats * 4, 16} {
    for (int s = 0; s <= n_seqs; ++s) cu_q.push_back(s * n_rows);
    to.assign(static_cast<size_t>(n), -1);
    for (int s = 0; s < n_seqs; ++s) from.push_back(to[static_cast<size_t>((s + 1) * n_rows - 1)] = s);
    std::fill_n(reinterpret_cast<float*>(memory.data()), n_seqs * state_floats, 0.0F);
  }
  StateRows rows() { return {ints(cu_q), ints(from), ints(to), view, 0}; }
  int64_t n;
  Buffer memory;
  KvGroupView view;
  std::vector<int32_t> cu_q, from, to;
};

void bench_scan(benchmark::State& state, int n_seqs, int n_rows, int threads) {
  const std::unique_ptr<Ops> ops = *make_cpu_ops(CpuOptions{.n_threads = threads, .isa = cpu_isas().back()});
  Work work(*ops, n_seqs, n_rows, kInner * kStateDim);
  const int64_t n = work.n;
  std::vector<float> x = numbers(n * kInner, 1, 1), b = numbers(n * kStateDim, 2, 1), c = numbers(n * kStateDim, 3, 1);
  std::vector<float> dt = numbers(n * kHeads, 4, 1), y(x.size()), bias(kHeads, 0.0F), a(kHeads, -1.0F), d(kHeads, 1.0F);
  const auto of_heads = [](std::vector<float>& v) { return Tensor::dense(v.data(), DType::f32, {kHeads}); };
  const ScanParams params{kHeads, kHeadDim, 1, kStateDim, of_heads(bias), of_heads(a), of_heads(d)};
  const ScanInput in{matrix(x, n, kInner), matrix(b, n, kStateDim), matrix(c, n, kStateDim), matrix(dt, n, kHeads)};
  while (state.KeepRunning()) ops->scan(matrix(y, n, kInner), in, params, work.rows());
  state.SetBytesProcessed(state.iterations() * n_seqs * kInner * kStateDim * 8);
  state.counters["Gop/s"] = benchmark::Counter(5e-9 * static_cast<double>(state.iterations() * n * kInner * kStateDim),
                                               benchmark::Counter::kIsRate);
}

void bench_conv(benchmark::State& state, int n_seqs, int n_rows, int threads) {
  const std::unique_ptr<Ops> ops = *make_cpu_ops(CpuOptions{.n_threads = threads, .isa = cpu_isas().back()});
  Work work(*ops, n_seqs, n_rows, (kTaps - 1) * kConv);
  std::vector<float> x = numbers(work.n * kConv, 1, 1), y(x.size()), w = numbers(kTaps * kConv, 2, 1);
  const ShortConv conv{matrix(w, kTaps, kConv), {}};
  while (state.KeepRunning()) {
    ops->short_conv(matrix(y, work.n, kConv), matrix(x, work.n, kConv), conv, work.rows());
  }
  state.SetBytesProcessed(state.iterations() * work.n * kConv * 8);
}

// RWKV 7 in the shape of 1.5B: 32 heads of 64.
void bench_wkv(benchmark::State& state, int n_seqs, int n_rows, int threads) {
  constexpr int kWkvHeads = 32, kDim = 64;
  constexpr int64_t kWidth = int64_t{kWkvHeads} * kDim;
  const std::unique_ptr<Ops> ops = *make_cpu_ops(CpuOptions{.n_threads = threads, .isa = cpu_isas().back()});
  Work work(*ops, n_seqs, n_rows, kWidth * kDim);
  const int64_t n = work.n;
  std::vector<float> rows = numbers(n * kWidth, 1, 1), y(rows.size()), own(rows.size()), ones(kWidth, 1.0F);
  const Tensor all = matrix(rows, n, kWidth), by = Tensor::dense(ones.data(), DType::f32, {kWidth});
  const WkvParams params{kWkvHeads, kDim, by, by, by};
  while (state.KeepRunning()) {
    ops->wkv(matrix(y, n, kWidth), matrix(own, n, kWidth), {all, all, all, all, all}, params, work.rows());
  }
  state.SetBytesProcessed(state.iterations() * n_seqs * kWidth * kDim * 8);
  state.counters["Gop/s"] = benchmark::Counter(9e-9 * static_cast<double>(state.iterations() * n * kWidth * kDim),
                                               benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  for (const auto& [n_seqs, n_rows] : {std::pair{1, 1}, {16, 1}, {1, 512}}) {
    for (int threads : {1, 2}) {
      const int s = n_seqs, r = n_rows;
      const std::string name =
          "/seqs:" + std::to_string(s) + "/rows:" + std::to_string(r) + "/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(("scan" + name).c_str(),
                                   [=](benchmark::State& state) { bench_scan(state, s, r, threads); })
          ->UseRealTime()
          ->MinTime(0.3);
      benchmark::RegisterBenchmark(("wkv" + name).c_str(),
                                   [=](benchmark::State& state) { bench_wkv(state, s, r, threads); })
          ->UseRealTime()
          ->MinTime(0.3);
      benchmark::RegisterBenchmark(("conv" + name).c_str(),
                                   [=](benchmark::State& state) { bench_conv(state, s, r, threads); })
          ->UseRealTime()
          ->MinTime(0.3);
    }
  }
  return true;
}();

}  // namespace
}  // namespace quire
