// Attention over BF16 caches in tensor arithmetic: each number is made of the twin's sums in order, whatever rows and
// heads are beside it; what is planted in the kernels is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <list>
#include <vector>

#include "backend/cuda/backend.h"
#include "backend/cuda/emulated/runtime_fake.h"
#include "backend/cuda/emulated/tensor_core.h"
#include "backend/cuda/kernels/math.cuh"
#include "base/rng.h"
#include "quant/f16.h"
#include "quant/kv_codec.h"
#include "tensor/arena.h"

namespace quire::cuda {
namespace {

constexpr int kTokens = 32, kOfChunk = 256;  // of a block of the cache; keys
constexpr float kScale = 0.25F;

struct Shape {
  int n_heads, n_kv_heads, k_dim, v_dim;
  std::vector<int> past, fresh;  // of sequences: rows that are in the cache before, and those that attend
  int window = 0;
  float soft_cap = 0.0F;
  float bad = 0.0F;  // a component of the last key and of its value
};

std::vector<float> numbers(int64_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = rng.normal();
  return out;
}

// One sequence's rows; keys and values of all its tokens.
struct Sequence {
  Sequence(const Shape& s, size_t i)
      : n_past(s.past[i]),
        n(s.past[i] + s.fresh[i]),
        k(numbers(int64_t{n} * s.n_kv_heads * s.k_dim, 10 + i)),
        v(numbers(int64_t{n} * s.n_kv_heads * s.v_dim, 20 + i)),
        q(numbers(int64_t{n} * s.n_heads * s.k_dim, 30 + i)) {
    if (s.bad != 0.0F) k.back() = v.back() = s.bad;
  }
  int n_past, n;
  std::vector<float> k, v, q;  // [n, heads, dim]
};

using Sixteen = std::array<uint16_t, 16>;
float added(float sum, const Sixteen& a, const Sixteen& b) {
  return std::bit_cast<float>(
      emulated::sum_of_products(emulated::kHopperCore, a.data(), b.data(), 16, std::bit_cast<uint32_t>(sum)));
}

// (m, l, o) of a chunk for one row and head.
struct State {
  float m = -INFINITY, l = 0.0F;
  std::vector<float> o;
};

class Expected {
 public:
  Expected(const Shape& shape, const Sequence& sequence) : s_(shape), of_(sequence) {}

  void append(std::vector<float>& out) const {
    for (int row = of_.n_past; row < of_.n; ++row) {
      for (int head = 0; head < s_.n_heads; ++head) {
        const State state = of_row(row, head);
        for (const float o : state.o) out.push_back(o * (1.0F / state.l));
      }
    }
  }

 private:
  State of_row(int row, int head) const {
    const int end = row + 1, first = s_.window > 0 ? std::max(0, end - s_.window) : 0;
    State all;
    for (int chunk = first / kOfChunk * kOfChunk; chunk < end; chunk += kOfChunk) {
      const State next = of_chunk(row, head, std::max(first, chunk), std::min(end, chunk + kOfChunk));
      if (all.l == 0.0F) {
        all = next;
        continue;
      }
      const float m = std::max(all.m, next.m), a = exp_of(all.m - m), b = exp_of(next.m - m);
      all.l = std::fma(all.l, a, next.l * b);
      for (size_t d = 0; d < all.o.size(); ++d) all.o[d] = std::fma(all.o[d], a, next.o[d] * b);
      all.m = m;
    }
    return all;
  }
  // Where a head of a row begins.
  static size_t place(int row, int n_heads, int head, int dim) {
    return (static_cast<size_t>(row) * static_cast<size_t>(n_heads) + static_cast<size_t>(head)) *
           static_cast<size_t>(dim);
  }
  State of_chunk(int row, int head, int lo, int hi) const {
    const int kv_head = head / (s_.n_heads / s_.n_kv_heads);
    std::vector<float> p(kOfChunk, 0.0F);
    State out;
    for (int t = lo; t < hi; ++t) {
      float sum = 0.0F;
      for (int d = 0; d < s_.k_dim; d += 16) {
        Sixteen a{}, b{};
        for (int j = 0; j < std::min(16, s_.k_dim - d); ++j) {
          const auto at = static_cast<size_t>(j);
          a[at] = f32_to_bf16(of_.k[place(t, s_.n_kv_heads, kv_head, s_.k_dim) + static_cast<size_t>(d) + at]);
          b[at] = f32_to_bf16_flushed(of_.q[place(row, s_.n_heads, head, s_.k_dim) + static_cast<size_t>(d) + at]);
        }
        sum = added(sum, a, b);
      }
      float& score = p[static_cast<size_t>(t % kOfChunk)];
      score = sum * kScale;
      if (s_.soft_cap > 0.0F) score = soft_capped<Plain>(score, s_.soft_cap);
      out.m = std::max(out.m, score);
    }
    std::array<float, 16> lanes{};
    for (int t = lo; t < hi; ++t) {
      float& weight = p[static_cast<size_t>(t % kOfChunk)];
      weight = exp_of(weight - out.m);
      lanes[static_cast<size_t>(t % 16)] += weight;
    }
    for (size_t half = 8; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    out.l = lanes[0];
    for (int d = 0; d < s_.v_dim; ++d) {
      float sum = 0.0F;
      for (int strip = lo / 16 * 16; strip < hi; strip += 16) {
        Sixteen a{}, b{};
        for (int t = std::max(lo, strip); t < std::min(hi, strip + 16); ++t) {
          const auto at = static_cast<size_t>(t % 16);
          a[at] = f32_to_bf16(of_.v[place(t, s_.n_kv_heads, kv_head, s_.v_dim) + static_cast<size_t>(d)]);
          b[at] = f32_to_bf16_flushed(p[static_cast<size_t>(t % kOfChunk)]);
        }
        sum = added(sum, a, b);
      }
      out.o.push_back(sum);
    }
    return out;
  }

  const Shape& s_;
  const Sequence& of_;
};

std::vector<float> expected(const Shape& shape) {
  std::vector<float> out;
  for (size_t i = 0; i < shape.past.size(); ++i) {
    const Sequence sequence(shape, i);
    Expected(shape, sequence).append(out);
  }
  return out;
}

// The rows that attend, of all sequences.
class Device {
 public:
  explicit Device(const FakeOptions& options)
      : ops_(*CudaOps::make(make_fake_runtime(options), plain_sample_kernels(), CudaArithmetic::tensor)) {}

  std::vector<float> attended(const Shape& s) {
    const KvCodec& codec = *find_kv_codec("bf16");
    const int64_t token_bytes = s.n_kv_heads * (codec.k_row_bytes(s.k_dim) + codec.v_row_bytes(s.v_dim));
    AttnParams params{.k_codec = &codec, .v_codec = &codec};
    params.n_heads = s.n_heads;
    params.n_kv_heads = s.n_kv_heads;
    params.k_dim = s.k_dim;
    params.v_dim = s.v_dim;
    params.scale = kScale;
    params.soft_cap = s.soft_cap;
    params.window = s.window;
    std::vector<Sequence> all;
    int max_blocks = 1;
    for (size_t i = 0; i < s.past.size(); ++i) {
      max_blocks = std::max(max_blocks, all.emplace_back(s, i).n / kTokens + 1);
    }
    const auto n_seqs = static_cast<int>(all.size());
    KvView view;
    view.n_groups = 1;
    view.groups[0] = {memory(n_seqs * max_blocks * token_bytes * kTokens, 0xff), token_bytes * kTokens, kTokens};
    std::vector<int32_t> blocks, cu_q = {0}, end;
    for (int i = 0; i < n_seqs * max_blocks; ++i) blocks.push_back((i + max_blocks) % (n_seqs * max_blocks));
    std::vector<float> q;
    for (size_t i = 0; i < all.size(); ++i) {
      const Sequence& one = all[i];
      std::vector<int32_t> slots;
      for (int t = 0; t < one.n; ++t) {
        const size_t block = i * static_cast<size_t>(max_blocks) + static_cast<size_t>(t / kTokens);
        slots.push_back(blocks[block] * kTokens + t % kTokens);
        if (t >= one.n_past) end.push_back(t + 1);
      }
      ops_->kv_write(floats(one.k, one.n), floats(one.v, one.n), ints(slots), view, params);
      q.insert(q.end(), one.q.begin() + one.n_past * s.n_heads * s.k_dim, one.q.end());
      cu_q.push_back(static_cast<int32_t>(end.size()));
    }
    const auto n = static_cast<int64_t>(end.size());
    const Tensor table = Tensor::dense(ints(blocks).data, DType::i32, {n_seqs, max_blocks});
    const AttnMeta meta{ints(cu_q), {table}, ints(std::vector<int32_t>(end.size(), 0)), ints(end)};
    const Tensor out = floats(std::vector<float>(static_cast<size_t>(n * s.n_heads * s.v_dim)), n);
    ops_->attend(out, floats(q, n), view, meta, params);
    ops_->finish();
    return {out.ptr<float>(), out.ptr<float>() + out.n_elements()};
  }

 private:
  std::byte* memory(int64_t n, int fill) {
    ops_->finish();
    buffers_.push_back(*ops_->allocate(n));
    std::memset(buffers_.back().data(), fill, static_cast<size_t>(n));
    return buffers_.back().data();
  }
  Tensor floats(const std::vector<float>& values, int64_t n) {
    const auto n_all = static_cast<int64_t>(values.size());
    std::byte* at = memory(n_all * 4, 0);
    std::ranges::copy(values, reinterpret_cast<float*>(at));
    return Tensor::dense(at, DType::f32, {n, n_all / n});
  }
  Tensor ints(const std::vector<int32_t>& values) {
    ops_->finish();
    arenas_.emplace_back(*ops_->allocate_arena(std::ssize(values) * 4 + Arena::kAlign));
    const Tensor out = arenas_.back().alloc(DType::i32, {std::ssize(values)});
    std::ranges::copy(values, out.ptr<int32_t>());
    return out;
  }
  std::unique_ptr<Ops> ops_;
  std::vector<Buffer> buffers_;
  std::list<Arena> arenas_;
};

bool have_same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

// Rows by themselves and in tiles, ends within strips and across chunks, windows, dims that are no multiples of 16 or
// odd, heads that share a KV head by four, by three and not at all.
const Shape kShapes[] = {
    {4, 1, 64, 64, {0, 300}, {1, 1}},        {4, 2, 16, 16, {300, 0, 260}, {1, 9, 8}},
    {3, 3, 15, 20, {40}, {2}, 20},           {3, 1, 80, 33, {250}, {12}, 7, 2.0F},
    {8, 2, 32, 256, {500, 3}, {33, 9}, 100}, {1, 1, 256, 16, {200}, {70}, 0, 2.0F},
};

TEST(CudaTensorAttention, ResultsAreOfTheTwinsSumsInOrder) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> truth = expected(shape);
    for (const uint64_t seed : {0, 1}) {
      const std::vector<float> got = Device({.seed = seed}).attended(shape);
      ASSERT_EQ(got.size(), truth.size());
      EXPECT_TRUE(have_same_bits(got, truth)) << shape.n_heads << " heads of " << shape.k_dim;
    }
  }
}

// As devices of compute capability 8.6 and 8.9 have.
TEST(CudaTensorAttention, ADeviceWithLittleSharedMemoryDoesRowsOneByOne) {
  const Shape& shape = kShapes[1];
  EXPECT_TRUE(have_same_bits(Device({.shared_bytes = 99 << 10}).attended(shape), expected(shape)));
}

TEST(CudaTensorAttention, ARowHasTheSameBitsAloneAndAmongMany) {
  const std::vector<float> all = Device({}).attended({4, 2, 32, 32, {0}, {40}});
  const std::vector<float> last = Device({}).attended({4, 2, 32, 32, {39}, {1}});
  EXPECT_TRUE(have_same_bits(last, std::span(all).last(last.size())));
}

// An infinity that only the last row may see reaches nobody else.
TEST(CudaTensorAttention, WhatARowMayNotSeeIsNothingToIt) {
  const Shape good{4, 1, 16, 16, {5}, {20}};
  Shape bad = good;
  bad.bad = INFINITY;
  const std::vector<float> truth = Device({}).attended(good), got = Device({}).attended(bad);
  const size_t n_row = 4 * 16;
  EXPECT_TRUE(have_same_bits(std::span(got).first(19 * n_row), std::span(truth).first(19 * n_row)));
  EXPECT_TRUE(std::isnan(got.back()));
}

TEST(CudaTensorAttention, ABarrierLessAndAWaitLessAreTold) {
  using enum emulated::Mutation::Kind;
  for (const Shape& shape : {Shape{4, 1, 64, 64, {300}, {1}}, Shape{4, 1, 64, 64, {40}, {9}}}) {
    const auto told = [&](emulated::Mutation mutation) {
      std::string fault;
      static_cast<void>(Device({.seed = 3, .major = 10, .mutation = mutation, .fault = &fault}).attended(shape));
      return fault;
    };
    EXPECT_EQ(told({}), "");
    for (int nth = 0; nth < 3; ++nth) {  // behind queries, between stages, behind scores
      const std::string fault = told({no_barrier, nth});
      EXPECT_NE(fault.find("attention"), std::string::npos) << nth << fault;
    }
    for (const auto kind : {no_wait, late_wait}) EXPECT_NE(told({kind}).find("nobody waited"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire::cuda
