// Layers that keep a state on the CUDA backend: the CPU's bits, of results and of every state that is left.
#include "ops/state_sizes.h"
#include "tests/parity/cuda_corpus.h"
#include "tests/parity/state_corpus.h"

namespace quire {
namespace {

// Three sequences: one anew, one that goes on where it left off, in the same block, one of a single row that leaves
// its state elsewhere; a row in the middle leaves its state too, and its successor sees the block change.
struct States {
  States(Bench& bench, int64_t floats, int64_t before)
      : block_bytes((floats + before) * 4), memory(bench.floats(Matrix(6, floats + before, 77, 0.5F))) {
    std::vector<int32_t> to(15, -1);
    to[4] = 1;
    to[8] = 0;
    to[9] = 2;  // read in this very step
    to[13] = 4;
    to[14] = 5;
    rows.cu_q = bench.ints({0, 9, 14, 15});
    rows.from = bench.ints({-1, 2, 3});
    rows.to = bench.ints(to);
    rows.view = {memory.data, block_bytes, 16};
    rows.offset = before * 4;
  }
  int64_t block_bytes;
  Tensor memory;
  StateRows rows;
};

std::vector<float> results(Bench& bench, std::initializer_list<Tensor> tensors) {
  std::vector<float> out;
  for (const Tensor& t : tensors) {
    const std::vector<float> some = bench.values(t);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

Tensor numbers(Bench& bench, int64_t n, uint64_t seed) {
  const Tensor t = bench.floats(Matrix(1, n, seed));
  return Tensor::dense(t.data, DType::f32, {n});
}

// Numbers below zero: what a state fades by.
Matrix fading(int64_t n, int64_t d, uint64_t seed) {
  Matrix out(n, d, seed);
  for (float& v : out.values) v = -std::exp(v);
  return out;
}

using Shape = StateShape;
constexpr Shape kShapes[] = {
    {1, 1, 1, 1, 1}, {3, 5, 3, 7, 2}, {4, 16, 2, 16, 4}, {2, 150, 1, 33, 3}, {1, 64, 1, kMostStateDim, kMostTaps}};

std::vector<float> convolved(Bench& bench, const Shape& shape) {
  const int64_t d = shape.n_inner() + 3;
  std::vector<float> out;
  for (const bool has_bias : {false, true}) {
    const States states(bench, std::max<int64_t>(1, shape.n_taps - 1) * d, 16);
    const Tensor x = bench.floats(Matrix(15, d + 5, 1)).columns(2, d), w = bench.floats(Matrix(shape.n_taps, d, 2));
    const Tensor y = has_bias ? x : bench.floats(Matrix(15, d));
    bench.ops().short_conv(y, x, {w, has_bias ? numbers(bench, d, 3) : Tensor()}, states.rows);
    const std::vector<float> some = results(bench, {y, states.memory});
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

TEST(CudaStates, ShortConvHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return convolved(bench, kShapes[0]); });
  expect_same([](Bench& bench) { return convolved(bench, kShapes[1]); });
  expect_same([](Bench& bench) { return convolved(bench, kShapes[2]); });
  expect_same([](Bench& bench) { return convolved(bench, kShapes[3]); });
  expect_same([](Bench& bench) { return convolved(bench, kShapes[4]); });
}

std::vector<float> scanned(Bench& bench, const Shape& of, bool by_component) {
  Shape shape = of;
  if (by_component) shape = {1, static_cast<int>(of.n_inner()), 1, of.state_dim, of.n_taps};
  const int64_t n = shape.n_inner(), n_shared = int64_t{shape.n_head_groups} * shape.state_dim;
  const int64_t n_steps = by_component ? n : shape.n_heads;
  const States states(bench, n * shape.state_dim, 32);
  Matrix dt(15, n_steps, 7, 3.0F);
  dt.values.front() = 30.0F;  // where log(1 + exp(x)) is x
  ScanParams params;
  params.n_heads = shape.n_heads;
  params.head_dim = shape.head_dim;
  params.n_head_groups = shape.n_head_groups;
  params.state_dim = shape.state_dim;
  params.dt_bias = numbers(bench, n_steps, 8);
  params.a = bench.floats(by_component ? fading(shape.state_dim, n, 9) : fading(1, shape.n_heads, 9));
  if (!by_component) params.a = Tensor::dense(params.a.data, DType::f32, {shape.n_heads});
  params.d = numbers(bench, n_steps, 10);
  params.by_component = by_component;
  const Tensor y = bench.floats(Matrix(15, n));
  bench.ops().scan(y,
                   {bench.floats(Matrix(15, n, 4)), bench.floats(Matrix(15, n_shared, 5)),
                    bench.floats(Matrix(15, n_shared, 6)), bench.floats(dt)},
                   params, states.rows);
  return results(bench, {y, states.memory});
}

std::vector<float> scanned_all(Bench& bench, bool by_component) {
  std::vector<float> out;
  for (const Shape& shape : kShapes) {
    const std::vector<float> some = scanned(bench, shape, by_component);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

TEST(CudaStates, ScanHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return scanned_all(bench, false); });
  expect_same([](Bench& bench) { return scanned_all(bench, true); });
}

std::vector<float> ruled(Bench& bench, const Shape& shape, bool by_component) {
  const int64_t n_keys = shape.n_keys(), n_fades = shape.n_fades(by_component);
  const States states(bench, shape.scan_floats(), 0);
  DeltaParams params = delta_params(shape, by_component);
  params.dt_bias = numbers(bench, n_fades, 16);
  params.a = bench.floats(fading(1, shape.n_heads, 17));
  params.a = Tensor::dense(params.a.data, DType::f32, {shape.n_heads});
  const Tensor y = bench.floats(Matrix(15, shape.n_inner()));
  bench.ops().delta_rule(y,
                         {bench.floats(Matrix(15, n_keys, 11)), bench.floats(Matrix(15, n_keys, 12)),
                          bench.floats(Matrix(15, shape.n_inner(), 13)), bench.floats(Matrix(15, n_fades, 14, 3.0F)),
                          bench.floats(Matrix(15, shape.n_heads, 15, 2.0F))},
                         params, states.rows);
  return results(bench, {y, states.memory});
}

TEST(CudaStates, DeltaRuleHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) {
    std::vector<float> out;
    for (const Shape& shape : kShapes) {
      for (const bool by_component : {false, true}) {
        const std::vector<float> some = ruled(bench, shape, by_component);
        out.insert(out.end(), some.begin(), some.end());
      }
    }
    return out;
  });
}

std::vector<float> recurred(Bench& bench, int n_heads, int dim, bool has_rate) {
  const int64_t d = int64_t{n_heads} * dim;
  const States states(bench, d * dim, 0);
  WkvParams params;
  params.n_heads = n_heads;
  params.dim = dim;
  params.bonus = numbers(bench, d, 26);
  if (has_rate) params.removal_scale = numbers(bench, d, 27);
  if (has_rate) params.rate_share = numbers(bench, d, 28);
  Matrix decay(15, d, 24, 2.0F), k(15, d, 22);
  decay.values.front() = 100.0F;                                              // the exponential of its exponential is 0
  for (int i = 0; i < dim; ++i) k.values[static_cast<size_t>(d + i)] = 0.0F;  // of no length
  const Tensor y = bench.floats(Matrix(15, d)), own = bench.floats(Matrix(15, d));
  Tensor rate;
  if (has_rate) rate = bench.floats(Matrix(15, d, 25, 2.0F));
  const WkvInput in{bench.floats(Matrix(15, d, 21)), bench.floats(k), bench.floats(Matrix(15, d, 23)),
                    bench.floats(decay), rate};
  bench.ops().wkv(y, own, in, params, states.rows);
  return results(bench, {y, own, states.memory});
}

std::vector<float> recurred_all(Bench& bench, bool has_rate) {
  std::vector<float> out;
  for (const auto& [n_heads, dim] : {std::pair{1, 1}, {3, 5}, {2, 64}, {1, 100}, {1, kMostStateDim}}) {
    const std::vector<float> some = recurred(bench, n_heads, dim, has_rate);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

TEST(CudaStates, WkvHasTheBitsOfTheCpu) {
  expect_same([](Bench& bench) { return recurred_all(bench, false); });
  expect_same([](Bench& bench) { return recurred_all(bench, true); });
}

// More rows than the workspace has room for, in three runs: in the second one sequence goes on where the first left it,
// and the next one is cut.
TEST(CudaStates, RowsThatDoNotFitAreDoneInRuns) {
  expect_same([](Bench& bench) {
    constexpr int64_t kRows = 1200, kHeads = 300, kDim = 33;
    static_assert(kRows * kHeads * (3 * kDim + 1) * 4 > 2 * cuda::kWorkspaceBytes);
    const Tensor memory = bench.floats(Matrix(3, kHeads * kDim, 1));
    std::vector<int32_t> to(kRows, -1);
    to[3] = 0;
    to[799] = 1;
    to.back() = 2;
    const StateRows rows{bench.ints({0, 4, 800, kRows}),
                         bench.ints({-1, 1, -1}),
                         bench.ints(to),
                         {memory.data, kHeads * kDim * 4, 16},
                         0};
    DeltaParams params;
    params.n_heads = kHeads;
    params.n_key_heads = kHeads;
    params.k_dim = static_cast<int>(kDim);
    params.v_dim = 1;
    params.fades_by_component = true;
    params.dt_bias = numbers(bench, kHeads * kDim, 2);
    params.a = bench.floats(fading(1, kHeads, 3));
    params.a = Tensor::dense(params.a.data, DType::f32, {kHeads});
    const Tensor keys = bench.floats(Matrix(kRows, kHeads * kDim, 4)), y = bench.floats(Matrix(kRows, kHeads));
    bench.ops().delta_rule(
        y, {keys, keys, bench.floats(Matrix(kRows, kHeads, 5)), keys, bench.floats(Matrix(kRows, kHeads, 6))}, params,
        rows);
    return results(bench, {y, memory});
  });
}

}  // namespace
}  // namespace quire
