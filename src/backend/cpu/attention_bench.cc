// Attention over the paged cache: bytes/s of keys and values (what decode is limited by) and operations/s (what prefill
// is). Blocks hold several layers, as the cache lays them out, so a layer's runs lie apart. Compare with the bandwidth
// and the f32 peak that `quire bench` probes on the same machine.
#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"
#include "quant/kv_codec.h"

namespace quire {
namespace {

constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 64, kBlockTokens = 16;  // the heads of a model of 1B

Tensor ints(std::vector<int32_t>& values) {
  return Tensor::dense(values.data(), DType::i32, {static_cast<int64_t>(values.size())});
}

// Sequences of `depth` keys each, their last `n_rows` tokens asking, in each of `n_layers` layers in turn.
struct Shape {
  std::string name;
  int n_rows, depth, n_layers;
  int n_sequences = 1;
};

void bench_attend(benchmark::State& state, const KvCodec* codec, const Shape& shape, int threads) {
  const std::unique_ptr<Ops> ops = *make_cpu_ops(CpuOptions{.n_threads = threads, .isa = cpu_isas().back()});
  const int64_t token_bytes = int64_t{kKvHeads} * (codec->k_row_bytes(kHeadDim) + codec->v_row_bytes(kHeadDim));
  const int64_t block_bytes = token_bytes * shape.n_layers * kBlockTokens;
  const int n_blocks = (shape.depth + kBlockTokens - 1) / kBlockTokens;  // of a sequence
  const int n = shape.n_sequences, n_rows = n * shape.n_rows;
  const Buffer pool = *ops->allocate(n * n_blocks * block_bytes);
  KvView view;
  view.n_groups = 1;
  view.groups[0] = {pool.data(), block_bytes, kBlockTokens};

  std::vector<int32_t> blocks(static_cast<size_t>(n) * n_blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<int32_t> slots(static_cast<size_t>(shape.depth));
  std::vector<int32_t> cu_q(static_cast<size_t>(n) + 1);
  for (int s = 0; s <= n; ++s) cu_q[static_cast<size_t>(s)] = s * shape.n_rows;
  std::vector<int32_t> first(static_cast<size_t>(n_rows), 0);
  std::vector<int32_t> end(static_cast<size_t>(n_rows));
  for (int r = 0; r < n_rows; ++r) end[static_cast<size_t>(r)] = shape.depth - shape.n_rows + 1 + r % shape.n_rows;
  const AttnMeta meta{ints(cu_q), {Tensor::dense(blocks.data(), DType::i32, {n, n_blocks})}, ints(first), ints(end)};
  AttnParams params{.k_codec = codec,
                    .v_codec = codec,
                    .n_heads = kHeads,
                    .n_kv_heads = kKvHeads,
                    .k_dim = kHeadDim,
                    .v_dim = kHeadDim,
                    .scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim))};

  Rng rng(1);
  std::vector<float> rows(static_cast<size_t>(shape.depth) * kKvHeads * kHeadDim);
  for (float& x : rows) x = rng.normal();
  const Tensor kv_rows = Tensor::dense(rows.data(), DType::f32, {shape.depth, int64_t{kKvHeads} * kHeadDim});
  for (int layer = 0; layer < shape.n_layers; ++layer) {
    params.kv_offset = layer * token_bytes;
    for (int s = 0; s < n; ++s) {
      std::iota(slots.begin(), slots.end(), s * n_blocks * kBlockTokens);
      ops->kv_write(kv_rows, kv_rows, ints(slots), view, params);
    }
  }
  std::vector<float> q(static_cast<size_t>(n_rows) * kHeads * kHeadDim);
  for (float& x : q) x = rng.normal();
  std::vector<float> out(q.size());
  const auto q_rows = [&](std::vector<float>& x) {
    return Tensor::dense(x.data(), DType::f32, {n_rows, int64_t{kHeads} * kHeadDim});
  };
  while (state.KeepRunning()) {
    for (int layer = 0; layer < shape.n_layers; ++layer) {
      params.kv_offset = layer * token_bytes;
      ops->attend(q_rows(out), q_rows(q), view, meta, params);
    }
  }

  int64_t n_keys = 0;
  for (const int32_t e : end) n_keys += e;
  const double steps = static_cast<double>(state.iterations()) * shape.n_layers;
  state.SetBytesProcessed(state.iterations() * shape.n_layers * n * shape.depth * token_bytes);
  state.counters["Gop/s"] =
      benchmark::Counter(4e-9 * steps * static_cast<double>(n_keys) * kHeads * kHeadDim, benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  const Shape shapes[] = {
      {"decode/depth:512/cached", 1, 512, 1},     {"decode/depth:4096", 1, 4096, 16},  // 128 MiB at f16
      {"decode/depth:16384", 1, 16384, 16},  // 512 MiB: more than most third-level caches hold
      {"decode/depth:65536", 1, 65536, 4},        {"decode:16/depth:4096", 1, 4096, 4, 16},
      {"decode:16/depth:16384", 1, 16384, 1, 16}, {"verify:4/depth:4096", 4, 4096, 16},
      {"prefill:512/depth:4096", 512, 4096, 1},
  };
  for (const KvCodec* codec : kv_codecs()) {
    for (const Shape& shape : shapes) {
      for (int threads : {1, 2}) {
        const std::string name =
            "attend/" + std::string(codec->name) + "/" + shape.name + "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { bench_attend(s, codec, shape, threads); })
            ->UseRealTime()
            ->MinTime(0.3);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace quire
