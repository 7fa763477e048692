// Attention over the paged cache: bytes/s of keys and values (what decode is limited by) and operations/s (what prefill
// is). Blocks hold several layers, as the cache lays them out, so a layer's runs lie apart. Compare with the bandwidth
// and the f32 peak that `quire bench` probes on the same machine.
#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>

#include "backend/cpu/cpu_ops.h"
#include "base/rng.h"
#include "ops/parts.h"
#include "quant/kv_codec.h"

namespace quire {
namespace {

constexpr int kBlockTokens = 16;
// The heads of a model of 1B, or of a latent one: a row of keys whose last components are the values.
struct Heads {
  int n, n_kv, k_dim, v_dim;
  bool values_in_keys;
};
constexpr Heads kOf1b{32, 8, 64, 64, false}, kLatent{16, 1, 576, 512, true};

Tensor ints(std::vector<int32_t>& values) {
  return Tensor::dense(values.data(), DType::i32, {static_cast<int64_t>(values.size())});
}

// Sequences of `depth` keys each, their last `n_rows` tokens asking, in each of `n_layers` layers in turn.
struct Shape {
  std::string name;
  int n_rows, depth, n_layers;
  int n_sequences = 1;
  Heads heads = kOf1b;
};

void bench_attend(benchmark::State& state, const KvCodec* codec, const Shape& shape, int threads) {
  const std::unique_ptr<Ops> ops = *make_cpu_ops(CpuOptions{.n_threads = threads, .isa = cpu_isas().back()});
  const Heads heads = shape.heads;
  const int64_t v_bytes = heads.values_in_keys ? 0 : codec->v_row_bytes(heads.v_dim);
  const int64_t token_bytes = heads.n_kv * (codec->k_row_bytes(heads.k_dim) + v_bytes);
  const int64_t block_bytes = token_bytes * shape.n_layers * kBlockTokens;
  const int n_blocks = (shape.depth + kBlockTokens - 1) / kBlockTokens;  // of a sequence
  const int n = shape.n_sequences, n_rows = n * shape.n_rows;
  const Buffer pool = *ops->allocate(n * n_blocks * block_bytes);
  const KvCodec* of_tail = codec->packs() ? find_kv_codec(codec->tail) : codec;
  const int64_t tail_bytes = heads.n_kv * (of_tail->k_row_bytes(heads.k_dim) + of_tail->v_row_bytes(heads.v_dim));
  const int64_t tail_block = tail_bytes * shape.n_layers * kBlockTokens;
  const Buffer tails = *ops->allocate(codec->packs() ? n * n_blocks * tail_block : 1);
  KvView view;
  view.n_groups = 2;
  view.groups[0] = {pool.data(), block_bytes, kBlockTokens};
  view.groups[1] = {tails.data(), tail_block, kBlockTokens};

  std::vector<int32_t> blocks(static_cast<size_t>(n) * n_blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<int32_t> slots(static_cast<size_t>(shape.depth));
  std::vector<int32_t> cu_q(static_cast<size_t>(n) + 1);
  for (int s = 0; s <= n; ++s) cu_q[static_cast<size_t>(s)] = s * shape.n_rows;
  std::vector<int32_t> first(static_cast<size_t>(n_rows), 0);
  std::vector<int32_t> end(static_cast<size_t>(n_rows));
  for (int r = 0; r < n_rows; ++r) end[static_cast<size_t>(r)] = shape.depth - shape.n_rows + 1 + r % shape.n_rows;
  const Tensor table = Tensor::dense(blocks.data(), DType::i32, {n, n_blocks});
  const AttnMeta meta{ints(cu_q), {table, table}, ints(first), ints(end)};
  AttnParams params{.tail_group = 1,
                    .k_codec = codec,
                    .v_codec = codec,
                    .n_heads = heads.n,
                    .n_kv_heads = heads.n_kv,
                    .k_dim = heads.k_dim,
                    .v_dim = heads.v_dim,
                    .values_in_keys = heads.values_in_keys,
                    .scale = 1.0F / std::sqrt(static_cast<float>(heads.k_dim))};

  Rng rng(1);
  std::vector<float> rows(static_cast<size_t>(shape.depth) * heads.n_kv * heads.k_dim);
  for (float& x : rows) x = rng.normal();
  const Tensor kv_rows = Tensor::dense(rows.data(), DType::f32, {shape.depth, int64_t{heads.n_kv} * heads.k_dim});
  for (int layer = 0; layer < shape.n_layers; ++layer) {
    params.kv_offset = layer * token_bytes;
    params.tail_offset = layer * tail_bytes;
    for (int s = 0; s < n; ++s) {
      std::iota(slots.begin(), slots.end(), s * n_blocks * kBlockTokens);
      store_kv(*ops, {kv_rows, heads.values_in_keys ? Tensor{} : kv_rows, ints(slots), ints(slots)}, view, params);
    }
  }
  std::vector<float> q(static_cast<size_t>(n_rows) * heads.n * heads.k_dim);
  for (float& x : q) x = rng.normal();
  std::vector<float> out(static_cast<size_t>(n_rows) * heads.n * heads.v_dim);
  const auto rows_of = [&](std::vector<float>& x, int dim) {
    return Tensor::dense(x.data(), DType::f32, {n_rows, int64_t{heads.n} * dim});
  };
  while (state.KeepRunning()) {
    for (int layer = 0; layer < shape.n_layers; ++layer) {
      params.kv_offset = layer * token_bytes;
      params.tail_offset = layer * tail_bytes;
      ops->attend(rows_of(out, heads.v_dim), rows_of(q, heads.k_dim), view, meta, params);
    }
  }

  int64_t n_keys = 0;
  for (const int32_t e : end) n_keys += e;
  const double steps = static_cast<double>(state.iterations()) * shape.n_layers;
  state.SetBytesProcessed(state.iterations() * shape.n_layers * n * shape.depth * token_bytes);
  state.counters["Gop/s"] = benchmark::Counter(
      2e-9 * steps * static_cast<double>(n_keys) * heads.n * (heads.k_dim + heads.v_dim), benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  const Shape shapes[] = {
      {"decode/depth:512/cached", 1, 512, 1},
      {"decode/depth:4096", 1, 4096, 16},    // 128 MiB at f16
      {"decode/depth:16384", 1, 16384, 16},  // 512 MiB: more than most third-level caches hold
      {"decode/depth:65536", 1, 65536, 4},
      {"decode:16/depth:4096", 1, 4096, 4, 16},
      {"decode:16/depth:16384", 1, 16384, 1, 16},
      {"verify:4/depth:4096", 4, 4096, 16},
      {"prefill:512/depth:4096", 512, 4096, 1},
      {"latent/decode/depth:8192", 1, 8192, 12, 1, kLatent},
      {"latent/prefill:512/depth:4096", 512, 4096, 1, 1, kLatent},
  };
  for (const KvCodec* codec : kv_codecs()) {
    for (const Shape& shape : shapes) {
      if (shape.heads.values_in_keys && !codec->values_in_keys) continue;
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
