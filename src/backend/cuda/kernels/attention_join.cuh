// What stands around AttendChunk (attention.cuh): queries that are rotated as keys of their codec are, chunks' states
// merged, and results that are turned back.
#pragma once
#include "backend/cuda/kernels/attention.cuh"

namespace quire::cuda {

// Grid: heads, rows from first_row on; `out` begins with that row.
struct RotateQueries {
  static constexpr int kThreads = 128, kSharedBytes = kMaxHead * 4;
  Rows<const float> q;
  Rows<float> out;
  int first_row, k_dim;
  Signs signs;

  QR_DEVICE void operator()() const {
    const int at = dev::block_x() * k_dim;
    const dev::Shared<float> x(0);
    const float* from = q.row(first_row + dev::block_y()) + at;
    signs.each<kThreads>(k_dim, [&](int d, uint32_t sign) { x[d] = with_sign(dev::load(from + d), sign); });
    rotate_in_place<kThreads>(x, k_dim, k_dim & -k_dim);
    for (int d = dev::thread(); d < k_dim; d += kThreads) dev::store(out.row(dev::block_y()) + at + d, x[d]);
  }
};

// Queries as they meet keys that are kept beside a window (docs/numerics.md): a row's pairs turned by its angles in the
// table. Row i of `to` is of row first_row + i.
struct TurnQueries {
  Rows<const float> q;
  Rows<float> to;
  const float* table;  // [rows, n_freq, 2]
  int first_row, k_dim, n_freq;
  bool is_interleaved;
  QR_DEVICE void of(int row, int i) const {
    const float* head = q.row(first_row + row) + i / k_dim * k_dim;
    const int d = i % k_dim, f = is_interleaved ? d / 2 : d % n_freq;
    float x = dev::load(head + d);
    if (d < 2 * n_freq) {
      const bool is_second = is_interleaved ? d % 2 == 1 : d >= n_freq;
      const float other = dev::load(head + (is_interleaved ? d ^ 1 : is_second ? d - n_freq : d + n_freq));
      const float* turn = table + (int64_t{first_row + row} * n_freq + f) * 2;
      const float by_cos = dev::mul(x, dev::load(turn)), by_sin = dev::mul(other, dev::load(turn + 1));
      x = is_second ? dev::add(by_sin, by_cos) : dev::sub(by_cos, by_sin);
    }
    dev::store(to.row(row) + i, x);
  }
};

// Grid: heads, rows from states.first_row on. A thread a component.
template <class Arithmetic>
struct AttendJoin {
  static constexpr int kThreads = 128, kSharedBytes = 0;
  static constexpr int kAhead = 8;  // chunks that are loaded before they are merged
  States states;
  Rows<float> out;
  const float* sinks;  // [n_heads] or null

  struct Running {
    float m, l, worth, added;  // what the sum so far and the next one are worth in both
    QR_DEVICE void merge(float m2, float l2) {
      const bool is_first = l == 0.0F;
      const float both = m2 > m ? m2 : m;
      worth = exp_of(Arithmetic().sub(m, both));
      added = exp_of(Arithmetic().sub(m2, both));
      l = is_first ? l2 : dev::fma(l, worth, dev::mul(l2, added));
      m = is_first ? m2 : both;
    }
  };

  QR_DEVICE void operator()() const {
    const int head = dev::block_x(), row = states.first_row + dev::block_y(), v_dim = states.v_dim;
    for (int d = dev::thread(); d < v_dim; d += kThreads) {
      Running sum{-kInfinity, 0.0F, 0.0F, 0.0F};
      float o = 0.0F;
      for (int c = 0; c < states.n_chunks; c += kAhead) {
        float m[kAhead], l[kAhead], mine[kAhead];
        QR_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          const bool is_there = c + i < states.n_chunks;
          const float* state = states.of(row, head, is_there ? c + i : c);
          m[i] = dev::load(state + v_dim);
          l[i] = is_there ? dev::load(state + v_dim + 1) : 0.0F;
          mine[i] = dev::load(state + d);
        }
        QR_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          if (l[i] == 0.0F) continue;
          const bool is_first = sum.l == 0.0F;
          sum.merge(m[i], l[i]);
          o = is_first ? mine[i] : Arithmetic().fused(o, sum.worth, Arithmetic().mul(mine[i], sum.added));
        }
      }
      if (sinks != nullptr) {
        sum.merge(Arithmetic().operand(dev::load(sinks + head)), 1.0F);
        o = Arithmetic().mul(o, sum.worth);
      }
      dev::store(out.row(row) + int64_t{head} * v_dim + d, Arithmetic().mul(o, dev::div(1.0F, sum.l)));
    }
  }
};

// A result of values that were kept rotated, turned back in place. Grid: heads, rows. signs: of its components.
struct RotateBack {
  static constexpr int kThreads = 128, kSharedBytes = kMaxHead * 4;
  Rows<float> out;
  int v_dim, run;
  Signs signs;

  QR_DEVICE void operator()() const {
    float* at = out.row(dev::block_y()) + int64_t{dev::block_x()} * v_dim;
    const dev::Shared<float> x(0);
    for (int d = dev::thread(); d < v_dim; d += kThreads) x[d] = dev::load(at + d);
    rotate_in_place<kThreads>(x, v_dim, run);
    signs.each<kThreads>(v_dim, [&](int d, uint32_t sign) { dev::store(at + d, with_sign(x[d], sign)); });
  }
};

}  // namespace quire::cuda
