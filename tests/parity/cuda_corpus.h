// What the CUDA backend's tests compute: the same on the CPU and on devices, which an emulator or NVIDIA's driver are
// behind.
#pragma once
#include <algorithm>
#include <cstring>
#include <deque>

#include "backend/cuda/backend.h"
#include "backend/cuda/cuda_ops.h"
#include "ops/parts.h"
#include "ops/pick.h"
#include "quant/kv_codec.h"
#include "tensor/arena.h"
#include "tests/parity/op_corpus.h"

namespace quire {

// Tensors in memory that the backend computes on.
class Bench {
 public:
  explicit Bench(Ops& ops) : ops_(ops) {}
  Tensor floats(Matrix m) { return put(m.values.data(), DType::f32, {m.n, m.d}); }
  Tensor ints(const std::vector<int32_t>& v) { return put(v.data(), DType::i32, {static_cast<int64_t>(v.size())}); }
  Tensor vector(int64_t n, uint64_t seed) {
    const Stored stored = stored_weight(*find_weight_format("f32"), 1, n, seed);
    return *ops_.load_vector(stored.weight);
  }
  Linear matrix(int64_t n_out, int64_t n_in, uint64_t seed, bool has_bias = false, std::string_view format = "q8_0") {
    const Stored w = stored_weight(*find_weight_format(format), n_out, n_in, seed);
    Stored bias = stored_weight(*find_weight_format("f32"), 1, n_out, seed + 1);
    bias.weight.shape = {n_out};
    return *ops_.load_linear(w.weight, has_bias ? &bias.weight : nullptr, Shard{});
  }
  // Of blocks of any bytes that stand for numbers below a million.
  Linear any_matrix(const WeightFormat& format, int64_t n_out, int64_t n_in, uint64_t seed) {
    Stored w;
    w.bytes.resize(static_cast<size_t>(n_out * format.row_bytes(n_in)));
    w.weight = HostWeight{"w", &format, {n_out, n_in}, w.bytes};
    Rng rng(seed);
    std::vector<float> numbers(static_cast<size_t>(format.block));
    for (auto at = w.bytes.begin(); at != w.bytes.end(); at += format.bytes) {
      do {
        std::generate_n(at, format.bytes, [&] { return static_cast<std::byte>(rng.bits() >> 56); });
        format.decode(&*at, numbers.data());
      } while (!std::ranges::all_of(numbers, [](float v) { return std::fabs(v) < 1e6F; }));
    }
    return *ops_.load_linear(w.weight, nullptr, Shard{});
  }
  std::byte* bytes(int64_t n, int fill) {
    ops_.finish();
    buffers_.push_back(*ops_.allocate(n));
    std::memset(buffers_.back().data(), fill, static_cast<size_t>(n));
    return buffers_.back().data();
  }
  Ops& ops() { return ops_; }
  AheadOps& ahead() { return ops_.ahead() != nullptr ? *ops_.ahead() : on_host_; }
  // What the host may read from now on.
  std::vector<float> values(const Tensor& t) {
    ops_.finish();
    std::vector<float> out;
    for (int64_t r = 0; r < t.dim(0); ++r) out.insert(out.end(), t.row<float>(r), t.row<float>(r) + t.dim(1));
    return out;
  }

 private:
  Tensor put(const void* from, DType dtype, std::initializer_list<int64_t> shape) {
    Tensor out = Tensor::dense(nullptr, dtype, shape);
    const int64_t n = std::max<int64_t>(1, out.n_elements());
    if (dtype == DType::i32) {
      ops_.finish();
      arenas_.emplace_back(*ops_.allocate_arena(n * 4 + Arena::kAlign));
      return written(arenas_.back().alloc(DType::i32, shape), from);
    }
    out.data = bytes(n * 4, 0);
    return written(out, from);
  }
  static Tensor written(const Tensor& out, const void* from) {
    std::memcpy(out.data, from, static_cast<size_t>(out.n_elements()) * 4);
    return out;
  }
  Ops& ops_;
  HostAhead on_host_{ops_};
  std::vector<Buffer> buffers_;
  std::deque<Arena> arenas_;
};

using Body = std::vector<float> (*)(Bench& bench);

inline std::vector<float> on_cpu(Body body) {
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = "scalar", .pin = false});
  Bench bench(**ops);
  return body(bench);
}

// On every device that this program has; of the emulated one in several orders of its threads.
std::vector<std::vector<float>> on_devices(Body body);
std::vector<std::vector<float>> in_tensor_arithmetic(Body body);  // the same in that, by two runtimes

inline void expect_same(Body body) {
  const std::vector<float> truth = on_cpu(body);
  const std::vector<std::vector<float>> all = on_devices(body);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(same_bits(truth, all[i])) << "device " << i;
}

inline std::vector<float> product(Bench& bench, int64_t n, int64_t n_in, int64_t n_out) {
  const Linear parts[] = {bench.matrix(n_out, n_in, 1, n % 2 == 1), bench.matrix(7, n_in, 3)};
  const Tensor y = bench.floats(Matrix(n, n_out + 7));
  bench.ops().linear(y, bench.floats(Matrix(n, n_in, 2)), parts);
  return bench.values(y);
}

inline std::vector<float> one_product(Bench& bench) { return product(bench, 17, 640, 100); }
inline Tensor pick_numbers(Bench& bench, std::span<const SampleParams> params) {
  std::vector<int32_t> numbers(params.size() * kPickNumbers);
  for (size_t i = 0; i < params.size(); ++i) put_pick(params[i], &numbers[i * kPickNumbers]);
  const Tensor flat = bench.ints(numbers);
  return Tensor::dense(flat.data, DType::i32, {static_cast<int64_t>(params.size()), kPickNumbers});
}
// Rows that are greedy, drawn, and drawn of what filters leave.
inline std::vector<float> one_pick(Bench& bench) {
  constexpr int64_t kRows = 4;
  std::vector<SampleParams> params(kRows);
  for (SampleParams& each : params) each.temperature = 0.9F, each.draw = 0.6;
  params[0].temperature = 0.0F;
  params[2].top_k = 40, params[2].top_p = 0.8F;
  params[3].top_p = 0.95F, params[3].min_p = 0.001F;
  const Tensor picked = Tensor::dense(bench.bytes(kRows * 4, 0), DType::i32, {kRows});
  const Tensor logits = bench.floats(Matrix(kRows, 3000, 11));
  bench.ahead().pick(picked, logits, pick_numbers(bench, params));
  bench.ops().finish();
  return {picked.ptr<int32_t>(), picked.ptr<int32_t>() + kRows};
}
inline std::vector<float> one_product_of_many_rows(Bench& bench) { return product(bench, 70, 640, 100); }

// Parts of several formats, one of them floats; n_in need not be whole blocks where all are.
inline std::vector<float> product_of_floats(
    Bench& bench, std::string_view format, int64_t n, int64_t n_in, int64_t n_out) {
  std::vector<Linear> parts = {bench.matrix(n_out, n_in, 1, n % 2 == 1, format),
                               bench.matrix(7, n_in, 3, false, "f32")};
  if (n_in % 32 == 0) parts.push_back(bench.matrix(5, n_in, 5));
  const int64_t wide = n_out + 7 + (n_in % 32 == 0 ? 5 : 0);
  const Tensor y = bench.floats(Matrix(n, wide)), embedded = bench.floats(Matrix(3, n_in));
  const Tensor x = bench.floats(Matrix(n, n_in + 3, 2));
  bench.ops().linear(y, x.columns(2, n_in), parts);
  bench.ops().embed(embedded, bench.ints({static_cast<int32_t>(n_out) - 1, 0, 1}), parts.front());
  std::vector<float> out = bench.values(y);
  std::ranges::copy(bench.values(embedded), std::back_inserter(out));
  return out;
}

struct Attending {
  int n_heads, n_kv_heads, dim;
  std::vector<int> past, fresh;
  int window = 0;
  float soft_cap = 0;
  bool has_sinks = false;
  std::string_view codec = "f16";
  int v_dim = 0;            // where it is not dim
  float spread = 1.0F;      // of all numbers
  float slope_bits = 0.0F;  // ALiBi
  bool values_in_keys = false;
  int n_kept = 0;  // beside the window
  bool turns = false;
};

// As in attention_test.cc: what no row may see is NaN.
inline std::vector<float> attended(Bench& bench, const Attending& c) {
  constexpr int kTokens = 32;
  const KvCodec& codec = *find_kv_codec(c.codec);
  const int v_dim = c.v_dim > 0 ? c.v_dim : c.dim;
  const int64_t v_bytes = c.values_in_keys ? 0 : codec.v_row_bytes(v_dim);
  const int64_t token_bytes = c.n_kv_heads * (codec.k_row_bytes(c.dim) + v_bytes);
  const int64_t offset = 64, block_bytes = (offset + token_bytes) * kTokens;
  const KvCodec& of_tail = codec.packs() ? *find_kv_codec(codec.tail) : codec;
  const int64_t tail_bytes = c.n_kv_heads * (of_tail.k_row_bytes(c.dim) + of_tail.v_row_bytes(v_dim)) * kTokens;
  const auto n_seqs = static_cast<int32_t>(c.past.size());
  int32_t max_blocks = 1;
  for (size_t s = 0; s < c.past.size(); ++s) max_blocks = std::max(max_blocks, (c.past[s] + c.fresh[s]) / kTokens + 1);
  KvView view;
  view.n_groups = 2;
  view.groups[0] = {bench.bytes(n_seqs * max_blocks * block_bytes, 0xff), block_bytes, kTokens};
  view.groups[1] = {bench.bytes(codec.packs() ? n_seqs * max_blocks * tail_bytes : 1, 0xff), tail_bytes, kTokens};
  AttnParams params{.kv_offset = offset, .tail_group = 1, .k_codec = &codec, .v_codec = &codec};
  params.n_heads = c.n_heads;
  params.n_kv_heads = c.n_kv_heads;
  params.k_dim = c.dim;
  params.v_dim = v_dim;
  params.scale = 0.125F;
  params.soft_cap = c.soft_cap;
  params.window = c.window;
  params.most_slope_bits = c.slope_bits;
  params.values_in_keys = c.values_in_keys;
  params.n_kept = c.n_kept;
  params.kept_pairs = c.n_kept % 2 == 0 ? RopePairs::halves : RopePairs::interleaved;
  if (c.has_sinks) params.sinks = bench.vector(c.n_heads, 9);
  std::vector<int32_t> blocks, cu_q = {0}, first, end;
  for (int32_t i = 0; i < n_seqs * max_blocks; ++i) {
    blocks.push_back((max_blocks - 1 - i % max_blocks) * n_seqs + i / max_blocks);
  }
  for (int32_t s = 0; s < n_seqs; ++s) {
    const int past = c.past[static_cast<size_t>(s)], total = past + c.fresh[static_cast<size_t>(s)];
    std::vector<int32_t> slots;
    for (int t = 0; t < total; ++t) {
      slots.push_back(blocks[static_cast<size_t>(int64_t{s} * max_blocks + t / kTokens)] * kTokens + t % kTokens);
      if (t >= past) end.push_back(t + 1);
    }
    const auto seed = static_cast<uint64_t>(s);
    const Tensor k = bench.floats(Matrix(total, c.n_kv_heads * c.dim, 100 + seed, c.spread));
    Tensor v;
    if (!c.values_in_keys) v = bench.floats(Matrix(total, c.n_kv_heads * v_dim, 200 + seed, c.spread));
    const Tensor to = bench.ints(slots);  // tails lie in blocks of the same numbers
    store_kv(bench.ops(), {k, v, to, to}, view, params);
    cu_q.push_back(static_cast<int32_t>(end.size()));
  }
  first.assign(end.size(), 0);
  const auto n = static_cast<int64_t>(end.size());
  const Tensor out = bench.floats(Matrix(n, c.n_heads * v_dim));
  Tensor table = bench.ints(blocks);
  table = Tensor::dense(table.data, DType::i32, {n_seqs, max_blocks});
  AttnMeta meta{bench.ints(cu_q), {table, table}, bench.ints(first), bench.ints(end)};
  if (c.turns) {
    const Tensor turns = bench.floats(Matrix(n, c.dim / 4 * 2, 400));
    meta.kept_rotation = Tensor::dense(turns.data, DType::f32, {n, c.dim / 4, 2});
  }
  bench.ops().attend(out, bench.floats(Matrix(n, c.n_heads * c.dim, 300, c.spread)), view, meta, params);
  return bench.values(out);
}

inline std::vector<float> one_product_of_halves(Bench& bench) { return product_of_floats(bench, "f16", 17, 320, 70); }
// Scale groups of 16 and of 32 with mins.
inline std::vector<float> one_product_with_mins(Bench& bench) {
  const Linear parts[] = {bench.matrix(70, 768, 1, true, "q2_k"), bench.matrix(5, 768, 3, false, "q4_k")};
  const Tensor y = bench.floats(Matrix(17, 75));
  bench.ops().linear(y, bench.floats(Matrix(17, 768, 2)), parts);
  return bench.values(y);
}
// Of rows one by one, and of two sequences' in one tile.
inline std::vector<float> one_attention(Bench& bench) { return attended(bench, {4, 2, 16, {300, 0, 260}, {1, 9, 8}}); }
inline std::vector<float> one_attention_of_q8(Bench& bench) {
  return attended(bench, {4, 2, 16, {300, 0}, {1, 3}, 0, 0, false, "q8"});
}
inline std::vector<float> one_attention_of_q4(Bench& bench) {
  return attended(bench, {4, 2, 16, {300, 0}, {1, 3}, 0, 0, false, "q4"});
}

}  // namespace quire
