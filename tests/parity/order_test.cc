// Weights whose columns lie in an order of their own (HostWeight::order): their products are those of rows in that
// order, and the parts of a layer that take them are the ops that they are made of, bit for bit.
#include <gtest/gtest.h>

#include "tests/parity/op_corpus.h"

namespace quire {
namespace {

Matrix in_order(const Matrix& x, uint64_t seed) {
  const std::vector<int32_t> order = shuffled(x.d, seed);
  Matrix out(x.n, x.d);
  for (int64_t i = 0; i < x.n * x.d; ++i) {
    out.values[static_cast<size_t>(i)] =
        x.values[static_cast<size_t>(i - i % x.d + order[static_cast<size_t>(i % x.d)])];
  }
  return out;
}

TEST(Order, ProductsAreThoseOfRowsInThatOrder) {
  const Stored w = stored_weight(*find_weight_format("q8_0"), 35, 96, 1);
  for (const int64_t n : {1, 3, 40}) {
    compare("rows " + std::to_string(n), 1e-5, [&](Ops& ops) {
      const Matrix x(n, 96, 2);
      Matrix x_plain = x, x_ordered = in_order(x, 7), truth(n, 35), got(n, 35);
      const Linear plain = load_ordered(ops, w, 0), ordered = load_ordered(ops, w, 7);
      ops.linear(truth.tensor(), x_ordered.tensor(), std::span(&plain, 1));
      ops.linear(got.tensor(), x_plain.tensor(), std::span(&ordered, 1));
      EXPECT_TRUE(same_bits(truth.values, got.values));
      return got.values;
    });
  }
}

// Parts side by side that share an order, have another or none, and one that reads floats.
TEST(Order, PartsSideBySideMayDiffer) {
  const char* formats[] = {"q8_0", "q4_0", "q8_0", "f16", "q8_0"};
  const uint64_t orders[] = {7, 7, 8, 0, 0};
  compare("parts", 1e-3, [&](Ops& ops) {
    std::vector<Linear> parts;
    const Matrix x(5, 64, 2);
    Matrix all_x = x, y(5, 5 * 20);
    std::vector<float> apart(static_cast<size_t>(y.n * y.d));
    for (size_t p = 0; p < 5; ++p) {
      const Stored w = stored_weight(*find_weight_format(formats[p]), 20, 64, p);
      parts.push_back(load_ordered(ops, w, orders[p]));
      Matrix one(5, 20);
      ops.linear(one.tensor(), all_x.tensor(), std::span(&parts.back(), 1));
      for (size_t i = 0; i < 100; ++i) apart[i / 20 * 100 + p * 20 + i % 20] = one.values[i];
    }
    ops.linear(y.tensor(), all_x.tensor(), parts);
    EXPECT_TRUE(same_bits(y.values, apart));
    return y.values;
  });
}

struct UnitOrders {
  uint64_t gate, up, down;
};

TEST(Order, FeedForwardIsItsOps) {
  const Stored gate = stored_weight(*find_weight_format("q8_0"), 96, 64, 5);
  const Stored up = stored_weight(*find_weight_format("q4_0"), 96, 64, 6);
  const Stored down = stored_weight(*find_weight_format("q8_0"), 64, 96, 7);
  for (const UnitOrders& c : {UnitOrders{1, 1, 2}, {1, 1, 0}, {0, 0, 2}, {1, 3, 2}, {0, 3, 0}}) {
    for (const int64_t n : {1, 3, 70}) {
      compare("unit " + std::to_string(c.gate) + std::to_string(c.up) + std::to_string(c.down), 1e-2, [&](Ops& ops) {
        const Linear both[] = {load_ordered(ops, gate, c.gate), load_ordered(ops, up, c.up)};
        const Linear last = load_ordered(ops, down, c.down);
        const auto run = [&](bool fused) {
          Matrix x(n, 64, 1), w(1, 64, 3), normed(n, 64), out(n, 64), scratch(n, 192);
          NormedRows in;
          in.x = x.tensor();
          in.w = Tensor::dense(w.values.data(), DType::f32, {64});
          in.eps = 1e-5F;
          in.normed = normed.tensor();
          const FeedForwardPart part{
              .gate_up = both, .activation = Activation::silu, .down = {&last, 1}, .scratch = scratch.tensor()};
          if (fused) ops.feed_forward(out.tensor(), in, part);
          if (!fused) ops.Ops::feed_forward(out.tensor(), in, part);
          return out.values;
        };
        const std::vector<float> fused = run(true);
        EXPECT_TRUE(same_bits(fused, run(false)));
        return fused;
      });
    }
  }
}

struct Expert {
  Stored gate, up, down;
};

// Every expert has seen other rows, so it has an order of its own.
TEST(Order, ExpertsMayEachHaveTheirOwn) {
  constexpr int kExperts = 4;
  const WeightFormat& format = *find_weight_format("q8_0");
  std::vector<Expert> stored;
  for (uint64_t e = 0; e < kExperts; ++e) {
    stored.push_back({stored_weight(format, 96, 64, 3 * e), stored_weight(format, 96, 64, 3 * e + 1),
                      stored_weight(format, 64, 96, 3 * e + 2)});
  }
  for (const int64_t n : {1, 40}) {
    compare("experts", 1e-2, [&](Ops& ops) {
      Experts experts;
      experts.routing = Routing{.n_used = 2};
      for (uint64_t e = 0; e < kExperts; ++e) {
        const Expert& one = stored[e];
        experts.gate_up.push_back({load_ordered(ops, one.gate, e), load_ordered(ops, one.up, e)});
        experts.down.push_back(load_ordered(ops, one.down, e + 10));
      }
      Matrix x(n, 64, 11), router(n, kExperts, 12), y(n, 64), scratch(n * 2, 64 + 3 * 96);
      ops.moe(y.tensor(), MoeInput{x.tensor(), router.tensor(), scratch.tensor()}, experts);
      return y.values;
    });
  }
}

}  // namespace
}  // namespace quire
