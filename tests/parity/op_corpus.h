// What the op corpus is made of: random matrices and weights, and the comparison of one computation on backend/ref and
// on every instruction set.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>

#include "backend/cpu/cpu_ops.h"
#include "backend/ref/ref_ops.h"
#include "base/rng.h"
#include "ops/low_rank.h"

namespace quire {

struct Matrix {
  Matrix(int64_t rows, int64_t cols) : n(rows), d(cols), values(static_cast<size_t>(rows * cols)) {}
  Matrix(int64_t rows, int64_t cols, uint64_t seed, float spread = 1.0F) : Matrix(rows, cols) {
    Rng rng(seed);
    for (float& v : values) v = rng.normal() * spread;
  }
  Tensor tensor() { return Tensor::dense(values.data(), DType::f32, {n, d}); }
  int64_t n, d;
  std::vector<float> values;
};

struct Stored {
  HostWeight weight;
  std::vector<std::byte> bytes;
};

inline Stored stored_weight(const WeightFormat& format, int64_t n_out, int64_t n_in, uint64_t seed) {
  Matrix plain(n_out, n_in, seed, 1.0F / std::sqrt(static_cast<float>(n_in)));
  Stored out;
  out.bytes.resize(static_cast<size_t>(n_out * format.row_bytes(n_in)));
  for (int64_t i = 0; i < n_out * n_in; i += format.block) {
    format.encode(plain.values.data() + i, out.bytes.data() + i / format.block * format.bytes);
  }
  out.weight = HostWeight{"w", &format, {n_out, n_in}, out.bytes};
  return out;
}

// The rows of a stored weight as if they were made of several tensors; its columns in this order, where there is one.
class CopiedRows final : public MadeRows {
 public:
  explicit CopiedRows(const HostWeight& weight, std::vector<int32_t> order = {})
      : weight_(weight), order_(std::move(order)) {}
  std::string kind() const override { return "copied"; }
  std::span<const int32_t> order() const override { return order_; }
  std::vector<std::span<const std::byte>> stored() const override { return {weight_.data}; }
  void make(int64_t first, int64_t n, std::byte* out) const override {
    const auto bytes = static_cast<size_t>(weight_.row_bytes());
    std::ranges::copy(weight_.data.subspan(static_cast<size_t>(first) * bytes, static_cast<size_t>(n) * bytes), out);
  }

 private:
  HostWeight weight_;
  std::vector<int32_t> order_;
};

// Rows [first, first + n) of the weight, made.
inline HostWeight made_weight(const HostWeight& weight, int64_t first, int64_t n) {
  HostWeight out = weight;
  out.shape = {n, weight.n_cols()};
  out.data = {};
  out.made = std::make_shared<CopiedRows>(weight);
  out.first_made = first;
  return out;
}

inline std::vector<int32_t> shuffled(int64_t n, uint64_t seed) {
  std::vector<int32_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  Rng rng(seed);
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(out[static_cast<size_t>(i)], out[static_cast<size_t>(rng.between(0, static_cast<int>(i)))]);
  }
  return out;
}

// The weight with columns that lie in a random order; seed 0: in order.
inline Linear load_ordered(Ops& ops, const Stored& stored, uint64_t seed) {
  HostWeight weight = made_weight(stored.weight, 0, stored.weight.n_rows());
  if (seed != 0) weight.made = std::make_shared<CopiedRows>(stored.weight, shuffled(weight.n_cols(), seed));
  return *ops.load_linear(weight, nullptr, Shard{});
}

// Two adapters for one layer whose products have these matrices, the first of rank 8, the second of rank 17 and not of
// every matrix; it scales what the last one makes. `content` is not asked for.
struct OneLayer {
  struct Shape {
    int64_t n_in, n_out;
  };
  using Product = std::vector<LowRank> AdapterLayer::*;
  void add(Ops& ops, Product product, std::vector<Shape> shapes, uint64_t seed) {
    for (const int64_t rank : {8, 17}) {
      Adapter& adapter = adapters[rank == 8 ? 0 : 1];
      if (adapter.layers.empty()) adapter.layers.resize(1);
      std::vector<Matrix> numbers;
      numbers.reserve(2 * shapes.size());
      std::vector<LowRankSource> from;
      for (size_t i = 0; i < shapes.size(); ++i) {
        LowRankSource& one = from.emplace_back(LowRankSource{.n_in = shapes[i].n_in, .n_out = shapes[i].n_out});
        if (rank == 17 && i == 1) continue;
        one.rank = rank;
        const float spread = 0.5F / std::sqrt(static_cast<float>(one.n_in));
        one.a = numbers.emplace_back(rank, one.n_in, seed++, spread).values;
        std::ranges::transform(numbers.back().values, numbers.back().values.begin(), rounded);
        const int64_t n_more = rank == 17 && i + 1 == shapes.size() ? kScalingRows : 0;
        one.b = numbers.emplace_back(one.n_out, rank + n_more, seed++, 0.5F).values;
        std::ranges::transform(numbers.back().values, numbers.back().values.begin(), rounded);
      }
      (adapter.layers[0].*product).resize(from.size());
      memory.push_back(*ops.load_low_rank(from, adapter.layers[0].*product));
    }
  }
  // Of n rows: the first third has the first, the last the second; of one row the second.
  std::vector<AdapterRows> rows(int64_t n) const {
    if (n < 3) return {{&adapters[1], 0, n}};
    return {{adapters.data(), 0, n / 3}, {&adapters[1], n - n / 3, n}};
  }
  float (*rounded)(float) = [](float v) { return v; };  // of every number: as it is to be held
  std::array<Adapter, 2> adapters;
  std::vector<Buffer> memory;
};

// n, or the next number of columns that the format can store.
inline int64_t whole_blocks(const WeightFormat& format, int64_t n) {
  return (n + format.block - 1) / format.block * format.block;
}

inline Tensor ints(std::vector<int32_t>& v) {
  return Tensor::dense(v.data(), DType::i32, {static_cast<int64_t>(v.size())});
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

// Threads and the memory nodes that they sit on, of which no result may depend.
struct Seating {
  int n_threads, n_nodes;
};
inline constexpr Seating kSeatings[] = {{1, 1}, {3, 2}};

// Runs `body` on ref and on every instruction set with each seating; each returns its result.
// ref must be within `tolerance` (relative to the largest |ref|), the others must be equal to each other in every bit.
inline void compare(const std::string& what, double tolerance, const std::function<std::vector<float>(Ops&)>& body) {
  const std::unique_ptr<Ops> ref = make_ref_ops();
  const std::vector<float> truth = body(*ref);
  double largest = 1e-30;
  for (float v : truth) largest = std::max(largest, static_cast<double>(std::fabs(v)));
  std::vector<float> first;
  for (const std::string& isa : cpu_isas()) {
    for (const auto& [n_threads, n_nodes] : kSeatings) {
      const CpuOptions options{.n_threads = n_threads, .isa = isa, .pin = false, .n_nodes = n_nodes};
      const auto ops = make_cpu_ops(options);
      ASSERT_TRUE(ops) << ops.error().message;
      const std::vector<float> got = body(**ops);
      ASSERT_EQ(got.size(), truth.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], truth[i], tolerance * largest) << what << ' ' << isa << " element " << i;
      }
      if (first.empty()) first = got;
      ASSERT_TRUE(same_bits(first, got)) << what << ' ' << (*ops)->describe();
    }
  }
}

}  // namespace quire
