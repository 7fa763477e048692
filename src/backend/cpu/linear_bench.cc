// Matrix products by format and rows: bytes/s of weights (what decode is limited by) and operations/s (what prefill
// is). Compare with the bandwidth and the peak that `quire bench` probes on the same machine.
#include <benchmark/benchmark.h>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kIn = 2048;
constexpr int64_t kOut = 98304;  // 214 MB at Q8_0: no cache here holds a useful part of it

void bench_linear(benchmark::State& state, const WeightFormat* format, const std::string& isa, int threads) {
  const std::unique_ptr<Ops> ops = *make_cpu_ops(CpuOptions{.n_threads = threads, .isa = isa});
  std::vector<std::byte> row(static_cast<size_t>(format->row_bytes(kIn)));
  std::vector<float> plain(kIn);
  Rng rng(1);
  for (float& v : plain) v = rng.normal();
  for (int64_t i = 0; i < kIn; i += format->block) {
    format->encode(plain.data() + i, row.data() + i / format->block * format->bytes);
  }
  std::vector<std::byte> stored;
  for (int64_t r = 0; r < kOut; ++r) stored.insert(stored.end(), row.begin(), row.end());
  const Linear linear = *ops->load_linear(HostWeight{"w", format, {kOut, kIn}, stored}, nullptr, Shard{});
  const int64_t n = state.range(0);
  std::vector<float> x(static_cast<size_t>(n * kIn), 0.5F);
  std::vector<float> y(static_cast<size_t>(n * kOut));
  for (auto _ : state) {
    ops->linear(Tensor::dense(y.data(), DType::f32, {n, kOut}), Tensor::dense(x.data(), DType::f32, {n, kIn}),
                std::span(&linear, 1));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(stored.size()));
  state.counters["Gop/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(state.iterations() * n * kIn * kOut), benchmark::Counter::kIsRate);
}

const bool registered = [] {
  for (const WeightFormat* format : weight_formats()) {
    for (int threads : {1, 2}) {
      const std::string isa = cpu_isas().back();
      const std::string name =
          "linear/" + std::string(format->name) + "/" + isa + "/threads:" + std::to_string(threads);
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { bench_linear(s, format, isa, threads); })
          ->Arg(1)
          ->Arg(4)
          ->Arg(16)
          ->Arg(128)
          ->UseRealTime()
          ->MinTime(0.3);
    }
  }
  return true;
}();

}  // namespace
}  // namespace quire
