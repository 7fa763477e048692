// The ladder of matrix products: every format at 1 to 512 rows. Each product is compared once with plain loops before
// it is timed. The rate is bytes of weights (what few rows are limited by) and operations (what many are); the shares
// are of what this machine was probed to do right before and after, as `quire bench` counts them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/thread.h"
#include "tensor/probe.h"

namespace quire {
namespace {

constexpr int64_t kIn = 2048;
constexpr int64_t kOut = 98304;     // 214 MB at Q8_0: no cache here holds a useful part of it
constexpr int64_t kDifferent = 61;  // rows of weights that differ; a prime, so that no panel is like the next
constexpr int kRows[] = {1, 2, 4, 8, 16, 32, 128, 512};

struct Key {
  const WeightFormat* format;
  int threads;
  bool operator==(const Key&) const = default;
};

// A format's weights on a backend. One is kept: benchmarks run in the order of their registration.
struct Weights {
  explicit Weights(const Key& k)
      : key(k), ops(*make_cpu_ops(CpuOptions{.n_threads = k.threads, .isa = cpu_isas().back()})) {
    const WeightFormat& format = *key.format;
    const int64_t row_bytes = format.row_bytes(kIn);
    std::vector<std::byte> different(static_cast<size_t>(kDifferent * row_bytes));
    Rng rng(1);
    std::vector<float> block(static_cast<size_t>(format.block));
    for (int64_t i = 0; i < kDifferent * kIn; i += format.block) {
      for (float& v : block) v = rng.normal();
      format.encode(block.data(), different.data() + i / format.block * format.bytes);
    }
    decoded.resize(static_cast<size_t>(kDifferent * kIn));
    for (int64_t i = 0; i < kDifferent * kIn; i += format.block) {
      format.decode(different.data() + i / format.block * format.bytes, decoded.data() + i);
    }
    std::vector<std::byte> stored(static_cast<size_t>(kOut * row_bytes));
    for (int64_t r = 0; r < kOut; ++r) {
      std::copy_n(different.begin() + r % kDifferent * row_bytes, row_bytes, stored.begin() + r * row_bytes);
    }
    linear = *ops->load_linear(HostWeight{"w", &format, {kOut, kIn}, stored}, nullptr, Shard{});
    bytes = static_cast<double>(stored.size());
  }
  Key key;
  std::unique_ptr<Ops> ops;
  Linear linear;
  std::vector<float> decoded;  // [kDifferent, kIn]
  double bytes = 0;            // as the file has them
};

const Weights& weights_for(const Key& key) {
  static std::unique_ptr<Weights> kept;
  if (kept == nullptr || !(kept->key == key)) {
    kept.reset();  // before the next ones take memory
    kept = std::make_unique<Weights>(key);
  }
  return *kept;
}

// Whole numbers up to 127, and ±127 in every activation group of 32: quantised to int8 they stay what they are, so that
// integer formats have to agree with plain loops but for the rounding of sums.
std::vector<float> exact_rows(int64_t n) {
  Rng rng(2);
  std::vector<float> out(static_cast<size_t>(n * kIn));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = i % kPanelDepth == 0 ? 127.0F : static_cast<float>(rng.between(-127, 127));
  }
  return out;
}

// Empty, or the first output that differs from plain loops: every row, one output of each different row of weights.
std::string difference(const Weights& w, const std::vector<float>& x, const std::vector<float>& y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t r = 0; r < kDifferent; ++r) {
      const int64_t o = kOut - kDifferent + r;  // the last panels, and others at other rows
      const float* weights = w.decoded.data() + o % kDifferent * kIn;
      double sum = 0;
      double size = 0;
      for (int64_t k = 0; k < kIn; ++k) {
        const double product = static_cast<double>(weights[k]) * x[static_cast<size_t>(i * kIn + k)];
        sum += product;
        size += std::abs(product);
      }
      const double got = y[static_cast<size_t>(i * kOut + o)];
      if (!(std::abs(got - sum) <= 1e-5 * size)) {
        return "row " + std::to_string(i) + ", output " + std::to_string(o) + ": " + std::to_string(got) +
               " instead of " + std::to_string(sum);
      }
    }
  }
  return "";
}

// Of the better of two probes, as it flatters least.
struct Limits {
  double bandwidth = 0, peak = 0;
  void probe(const Key& key) {
    const CpuPeak peaks = *measure_cpu_peak(CpuOptions{.n_threads = key.threads, .isa = cpu_isas().back()});
    bandwidth = std::max(bandwidth, *probe_read_bandwidth(key.threads));
    peak = std::max(peak, key.format->integer ? peaks.int8 : key.format->rounded ? peaks.bf16 : peaks.f32);
  }
};

void bench_linear(benchmark::State& state, const Key& key) {
  const Weights& w = weights_for(key);
  const int64_t n = state.range(0);
  std::vector<float> x = exact_rows(n);
  std::vector<float> y(static_cast<size_t>(n * kOut));
  const auto multiply = [&] {
    w.ops->linear(Tensor::dense(y.data(), DType::f32, {n, kOut}), Tensor::dense(x.data(), DType::f32, {n, kIn}),
                  std::span(&w.linear, 1));
  };
  multiply();
  const std::string wrong = difference(w, x, y, n);
  if (!wrong.empty()) return state.SkipWithError(wrong.c_str());
  Limits limits;
  limits.probe(key);
  SystemClock clock;
  const int64_t start = clock.now_ns();
  while (state.KeepRunning()) multiply();
  const double seconds = static_cast<double>(clock.now_ns() - start) * 1e-9;
  limits.probe(key);
  const auto times = static_cast<double>(state.iterations());
  const double ops = 2.0 * static_cast<double>(n * kIn * kOut);
  state.counters["GB/s"] = w.bytes * times / seconds * 1e-9;
  state.counters["Gop/s"] = ops * times / seconds * 1e-9;
  state.counters["of_bandwidth"] = w.bytes * times / seconds / limits.bandwidth;
  state.counters["of_peak"] = ops * times / seconds / limits.peak;
}

// The number of iterations is given, so that each is called once, with one pair of probes.
const bool kRegistered = [] {
  for (const WeightFormat* format : weight_formats()) {
    std::vector<int> threads{1};
    if (n_usable_cores() > 1) threads.push_back(n_usable_cores());
    for (const int n_threads : threads) {
      const Key key{format, n_threads};
      const std::string name =
          "linear/" + std::string(format->name) + "/" + cpu_isas().back() + "/threads:" + std::to_string(n_threads);
      for (const int n : kRows) {
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { bench_linear(s, key); })
            ->Arg(n)
            ->UseRealTime()
            ->Iterations(std::clamp(64 / n, 2, 16));
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace quire
