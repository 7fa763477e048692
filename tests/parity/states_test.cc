// Layers that keep a state: short convolutions, selective scans and delta rules on every instruction set against
// backend/ref, with sequences beside each other, states that are read and left, and rows that come in pieces: the same
// bits.
#include "ops/state_sizes.h"
#include "tests/parity/op_corpus.h"
#include "tests/parity/state_corpus.h"

namespace quire {
namespace {

// Blocks of states in one buffer, and who reads and leaves which.
struct States {
  States(int n_blocks, int64_t n_floats) : block_floats(n_floats), memory(n_blocks, n_floats, 77, 0.5F) {}
  StateRows rows() {
    return {ints(cu_q),
            ints(from),
            ints(to),
            {reinterpret_cast<std::byte*>(memory.values.data()), block_floats * 4, 16},
            0};
  }
  int64_t block_floats;
  Matrix memory;
  std::vector<int32_t> cu_q, from, to;
};

using Shape = StateShape;
constexpr Shape kShapes[] = {{1, 1, 1, 1, 1},    {3, 5, 3, 7, 2},    {4, 16, 2, 16, 4},
                             {2, 64, 1, 128, 4}, {2, 150, 1, 33, 3}, {1, 64, 1, kMostStateDim, kMostTaps}};

// Three sequences: one anew, one that goes on where it left off, in the same block, one of a single row that leaves
// its state elsewhere; a row in the middle leaves its state too.
States three(int64_t n_floats) {
  States out(6, n_floats);
  out.cu_q = {0, 9, 14, 15};
  out.from = {-1, 2, 3};
  out.to.assign(15, -1);
  out.to[4] = 1;
  out.to[8] = 0;
  out.to[9] = 2;  // read in this very step
  out.to[13] = 4;
  out.to[14] = 5;
  return out;
}

// Numbers of one row each.
struct Numbers {
  Numbers(int64_t n, uint64_t seed, float spread = 1.0F) : values(1, n, seed, spread) {}
  Tensor tensor() { return Tensor::dense(values.values.data(), DType::f32, {values.d}); }
  Matrix values;
};

std::vector<float> convolve(Ops& ops, const Shape& shape, States& states, int64_t n, bool has_bias) {
  const int64_t d = shape.n_inner() + 3;
  Matrix x(n, d, 1), y(n, d), w(shape.n_taps, d, 2);
  Numbers b(d, 3);
  ops.short_conv(y.tensor(), x.tensor(), {w.tensor(), has_bias ? b.tensor() : Tensor()}, states.rows());
  std::vector<float> out = y.values;
  out.insert(out.end(), states.memory.values.begin(), states.memory.values.end());
  return out;
}

TEST(StateParity, ShortConv) {
  for (const Shape& shape : kShapes) {
    for (const bool has_bias : {false, true}) {
      compare("convolution of " + std::to_string(shape.n_taps), 1e-5, [&](Ops& ops) {
        States states = three(std::max<int64_t>(1, shape.n_taps - 1) * (shape.n_inner() + 3));
        return convolve(ops, shape, states, 15, has_bias);
      });
    }
  }
}

// What a scan reads, rows [begin, end) of 15.
struct Scanned {
  explicit Scanned(const Shape& s, bool columns = false)
      : shape(columns ? Shape{1, static_cast<int>(s.n_inner()), 1, s.state_dim, s.n_taps} : s),
        by_component(columns),
        x(15, s.n_inner(), 4),
        b(15, int64_t{shape.n_head_groups} * s.state_dim, 5),
        c(15, int64_t{shape.n_head_groups} * s.state_dim, 6),
        dt(15, columns ? s.n_inner() : s.n_heads, 7, 3.0F),
        y(15, s.n_inner()),
        bias(dt.d, 8),
        a(columns ? s.scan_floats() : s.n_heads, 9),
        d(dt.d, 10) {
    for (float& v : a.values.values) v = -std::exp(v);
    dt.values.front() = 30.0F;  // where log(1 + exp(x)) is x
  }
  void run(Ops& ops, int64_t begin, int64_t end, States& states) {
    const int64_t n = end - begin;
    const Tensor fades = by_component
                             ? Tensor::dense(a.values.values.data(), DType::f32, {shape.state_dim, shape.head_dim})
                             : a.tensor();
    const ScanParams params{shape.n_heads, shape.head_dim, shape.n_head_groups, shape.state_dim,
                            bias.tensor(), fades,          d.tensor(),          by_component};
    const ScanInput in{x.tensor().rows(begin, n), b.tensor().rows(begin, n), c.tensor().rows(begin, n),
                       dt.tensor().rows(begin, n)};
    ops.scan(y.tensor().rows(begin, n), in, params, states.rows());
  }
  Shape shape;
  bool by_component;
  Matrix x, b, c, dt, y;
  Numbers bias, a, d;
};

TEST(StateParity, Scan) {
  for (const Shape& shape : kShapes) {
    for (const bool by_component : {false, true}) {
      compare("scan of " + std::to_string(shape.head_dim) + (by_component ? ", columns" : ""), 1e-5, [&](Ops& ops) {
        States states = three(shape.scan_floats());
        Scanned scanned(shape, by_component);
        scanned.run(ops, 0, 15, states);
        std::vector<float> out = scanned.y.values;
        out.insert(out.end(), states.memory.values.begin(), states.memory.values.end());
        return out;
      });
    }
  }
}

// One sequence of 15 rows in pieces, each of which goes on where the last one left off.
void compare_pieces(bool by_component) {
  for (const Shape& shape : kShapes) {
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
      const auto in_pieces = [&](std::initializer_list<int64_t> ends) {
        States states(1, shape.scan_floats());
        Scanned scanned(shape, by_component);
        int64_t begin = 0;
        for (const int64_t end : ends) {
          states.cu_q = {0, static_cast<int32_t>(end - begin)};
          states.from = {begin == 0 ? -1 : 0};
          states.to.assign(static_cast<size_t>(end - begin), -1);
          states.to.back() = 0;
          scanned.run(**ops, begin, end, states);
          begin = end;
        }
        std::vector<float> out = scanned.y.values;
        out.insert(out.end(), states.memory.values.begin(), states.memory.values.end());
        return out;
      };
      const std::vector<float> whole = in_pieces({15});
      EXPECT_TRUE(same_bits(in_pieces({1, 2, 7, 15}), whole)) << isa;
      EXPECT_TRUE(same_bits(in_pieces({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}), whole)) << isa;
    }
  }
}

TEST(StateParity, PiecesHaveTheBitsOfTheWhole) { compare_pieces(false); }

TEST(StateParity, PiecesOfColumnsHaveTheBitsOfTheWhole) { compare_pieces(true); }

TEST(StateParity, ConvolvedPiecesHaveTheBitsOfTheWhole) {
  for (const Shape& shape : kShapes) {
    const int64_t d = shape.n_inner();
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
      const auto in_pieces = [&](int64_t piece) {
        States states(1, std::max<int64_t>(1, shape.n_taps - 1) * d);
        Matrix x(15, d, 1), y(15, d), w(shape.n_taps, d, 2);
        for (int64_t begin = 0; begin < 15; begin += piece) {
          const int64_t n = std::min<int64_t>(piece, 15 - begin);
          states.cu_q = {0, static_cast<int32_t>(n)};
          states.from = {begin == 0 ? -1 : 0};
          states.to.assign(static_cast<size_t>(n), -1);
          states.to.back() = 0;
          (*ops)->short_conv(y.tensor().rows(begin, n), x.tensor().rows(begin, n), {w.tensor(), {}}, states.rows());
        }
        return y.values;
      };
      EXPECT_TRUE(same_bits(in_pieces(1), in_pieces(15))) << isa;
      EXPECT_TRUE(same_bits(in_pieces(4), in_pieces(15))) << isa;
    }
  }
}

// Shapes as those of scans, head groups as key heads and components of a state as those of a key; every second shape
// fades by component, the others share in turn.
struct Ruled {
  explicit Ruled(int which)
      : shape(kShapes[which]),
        by_component(which % 2 == 0),
        q(15, shape.n_keys(), 11),
        k(15, shape.n_keys(), 12),
        v(15, shape.n_inner(), 13),
        dt(15, shape.n_fades(by_component), 14, 3.0F),
        beta(15, shape.n_heads, 15, 2.0F),
        y(15, shape.n_inner()),
        bias(shape.n_fades(by_component), 16),
        a(shape.n_heads, 17) {
    for (float& value : a.values.values) value = -std::exp(value);
    dt.values.front() = 30.0F;
  }
  void run(Ops& ops, int64_t begin, int64_t end, States& states) {
    const int64_t n = end - begin;
    DeltaParams params = delta_params(shape, by_component);
    params.dt_bias = bias.tensor();
    params.a = a.tensor();
    const auto some = [&](Matrix& of) { return of.tensor().rows(begin, n); };
    ops.delta_rule(some(y), {some(q), some(k), some(v), some(dt), some(beta)}, params, states.rows());
  }
  std::vector<float> result(const States& states) const {
    std::vector<float> out = y.values;
    out.insert(out.end(), states.memory.values.begin(), states.memory.values.end());
    return out;
  }
  Shape shape;
  bool by_component;
  Matrix q, k, v, dt, beta, y;
  Numbers bias, a;
};

TEST(StateParity, DeltaRule) {
  for (int which = 0; which < static_cast<int>(std::size(kShapes)); ++which) {
    compare("delta rule " + std::to_string(which), 1e-5, [&](Ops& ops) {
      States states = three(kShapes[which].scan_floats());
      Ruled ruled(which);
      ruled.run(ops, 0, 15, states);
      return ruled.result(states);
    });
  }
}

TEST(StateParity, RuledPiecesHaveTheBitsOfTheWhole) {
  for (int which = 0; which < static_cast<int>(std::size(kShapes)); ++which) {
    for (const std::string& isa : cpu_isas()) {
      const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
      const auto in_pieces = [&](int64_t piece) {
        States states(1, kShapes[which].scan_floats());
        Ruled ruled(which);
        for (int64_t begin = 0; begin < 15; begin += piece) {
          const int64_t n = std::min<int64_t>(piece, 15 - begin);
          states.cu_q = {0, static_cast<int32_t>(n)};
          states.from = {begin == 0 ? -1 : 0};
          states.to.assign(static_cast<size_t>(n), -1);
          states.to.back() = 0;
          ruled.run(**ops, begin, begin + n, states);
        }
        return ruled.result(states);
      };
      const std::vector<float> whole = in_pieces(15);
      EXPECT_TRUE(same_bits(in_pieces(1), whole)) << isa;
      EXPECT_TRUE(same_bits(in_pieces(4), whole)) << isa;
    }
  }
}

// RWKV's recurrence, of 6 and of 7, in heads of several sizes.
struct Recurred {
  Recurred(int n_heads, int head_dim, bool rates)
      : dim(head_dim),
        has_rate(rates),
        d(int64_t{n_heads} * head_dim),
        r(15, d, 21),
        k(15, d, 22),
        v(15, d, 23),
        decay(15, d, 24, 2.0F),
        rate(15, d, 25, 2.0F),
        y(15, d),
        own(15, d),
        bonus(d, 26),
        removal(d, 27),
        share(d, 28) {
    decay.values.front() = 100.0F;  // the exponential of its exponential is 0
    for (int i = 0; i < head_dim; ++i) k.values[static_cast<size_t>(d + i)] = 0.0F;  // of no length
  }
  void run(Ops& ops, int64_t begin, int64_t end, States& states) {
    WkvParams params{static_cast<int>(d / dim), dim, bonus.tensor(), {}, {}};
    if (has_rate) params.removal_scale = removal.tensor();
    if (has_rate) params.rate_share = share.tensor();
    const auto some = [&](Matrix& of) { return of.tensor().rows(begin, end - begin); };
    const WkvInput in{some(r), some(k), some(v), some(decay), has_rate ? some(rate) : Tensor()};
    ops.wkv(some(y), some(own), in, params, states.rows());
  }
  int64_t state_floats() const { return d * dim; }
  std::vector<float> result(const States& states) const {
    std::vector<float> out = y.values;
    out.insert(out.end(), own.values.begin(), own.values.end());
    out.insert(out.end(), states.memory.values.begin(), states.memory.values.end());
    return out;
  }
  int dim;
  bool has_rate;
  int64_t d;
  Matrix r, k, v, decay, rate, y, own;
  Numbers bonus, removal, share;
};

struct Heads {
  int n, dim;
};
constexpr Heads kHeads[] = {{1, 1}, {3, 5}, {2, 16}, {2, 64}, {1, 100}, {1, kMostStateDim}};

TEST(StateParity, Wkv) {
  for (const Heads& heads : kHeads) {
    for (const bool has_rate : {false, true}) {
      compare("recurrence of " + std::to_string(heads.dim) + (has_rate ? ", rates" : ""), 1e-5, [&](Ops& ops) {
        Recurred recurred(heads.n, heads.dim, has_rate);
        States states = three(recurred.state_floats());
        recurred.run(ops, 0, 15, states);
        return recurred.result(states);
      });
    }
  }
}

TEST(StateParity, RecurredPiecesHaveTheBitsOfTheWhole) {
  for (const Heads& heads : kHeads) {
    for (const bool has_rate : {false, true}) {
      for (const std::string& isa : cpu_isas()) {
        const auto ops = make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false});
        const auto in_pieces = [&](int64_t piece) {
          Recurred recurred(heads.n, heads.dim, has_rate);
          States states(1, recurred.state_floats());
          for (int64_t begin = 0; begin < 15; begin += piece) {
            const int64_t n = std::min<int64_t>(piece, 15 - begin);
            states.cu_q = {0, static_cast<int32_t>(n)};
            states.from = {begin == 0 ? -1 : 0};
            states.to.assign(static_cast<size_t>(n), -1);
            states.to.back() = 0;
            recurred.run(**ops, begin, begin + n, states);
          }
          return recurred.result(states);
        };
        const std::vector<float> whole = in_pieces(15);
        EXPECT_TRUE(same_bits(in_pieces(1), whole)) << isa;
        EXPECT_TRUE(same_bits(in_pieces(4), whole)) << isa;
      }
    }
  }
}

}  // namespace
}  // namespace quire
