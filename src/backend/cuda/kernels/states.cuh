// Layers that keep a state (docs/numerics.md): rows of a sequence one after the other. A thread has a column of a
// head's state, [depth, width], in shared memory from its sequence's first row to the last; sums over the depth go in
// order. What a row is made into in double is the host's (ops/state_rows.h).
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

inline constexpr int kMostStateDepth = 256;  // kMostStateDim (ops/state_sizes.h)

// Which rows a launch takes, and where the states of their sequences lie. Launches take rows in order, so at most one
// sequence comes from the launch before and at most one goes on in the next: their states lie in two places, since the
// blocks of a launch have no order.
struct SequenceStates {
  const int32_t* cu_q;  // [n_seqs + 1]
  const int32_t *from, *to;
  uint8_t* base;  // of the layer's part of block 0
  int64_t block_bytes;
  const float* carried_in;
  float* carried_out;
  int first_row, end_row;
  QR_DEVICE float* at(int64_t block) const { return reinterpret_cast<float*>(base + block * block_bytes); }
};

// A thread's column of a state.
struct Column {
  int threads;
  QR_DEVICE float get(int s) const { return dev::Shared<float>(0)[s * threads + dev::thread()]; }
  QR_DEVICE void set(int s, float x) const { dev::Shared<float>(0)[s * threads + dev::thread()] = x; }
};

// Grid: width / kThreads, heads, sequences. of.row(row, head, p, column, is_new) makes column p of the head's result of
// a row, and of the state before it, which is zeros where is_new, the one behind it.
template <class Of>
struct StateRowsKernel {
  static constexpr int kThreads = Of::kThreads, kSharedBytes = Of::kMostDepth * kThreads * 4;
  SequenceStates states;
  Of of;

  QR_DEVICE void operator()() const {
    const int p = dev::block_x() * kThreads + dev::thread(), head = dev::block_y(), seq = dev::block_z();
    const int begin = dev::load(states.cu_q + seq), end = dev::load(states.cu_q + seq + 1);
    int row = begin > states.first_row ? begin : states.first_row;
    const int stop = end < states.end_row ? end : states.end_row;
    if (p >= of.width || row >= stop) return;
    const Column column{kThreads};
    const int64_t first = int64_t{head} * of.depth * of.width + p;
    const int block = dev::load(states.from + seq);
    bool is_new = row == begin && block < 0;
    const float* before = row > begin ? states.carried_in : states.at(block < 0 ? 0 : block);
    for (int s = 0; s < of.depth; ++s) {
      column.set(s, is_new ? 0.0F : dev::load(before + first + int64_t{s} * of.width));
    }
    const auto leave = [&](float* state) {
      for (int s = 0; s < of.depth; ++s) dev::store(state + first + int64_t{s} * of.width, column.get(s));
    };
    for (; row < stop; ++row, is_new = false) {
      of.row(row, head, p, column, is_new);
      const int to = dev::load(states.to + row);
      if (to >= 0) leave(states.at(to));
    }
    if (stop < end) leave(states.carried_out);
  }
};

// depth: rows before one.
struct ConvRow {
  static constexpr int kThreads = 128, kMostDepth = 15;
  Rows<const float> x;
  Rows<float> y;
  const float *w, *b;  // [depth + 1, width]; [width] or null
  int width, depth;
  QR_DEVICE void row(int row, int, int p, const Column& past, bool) const {
    float sum = b == nullptr ? 0.0F : dev::load(b + p);
    for (int j = 0; j < depth; ++j) sum = dev::fma(past.get(j), dev::load(w + int64_t{j} * width + p), sum);
    const float now = dev::load(x.row(row) + p);
    dev::store(y.row(row) + p, dev::fma(now, dev::load(w + int64_t{depth} * width + p), sum));
    for (int j = 0; j + 1 < depth; ++j) past.set(j, past.get(j + 1));
    if (depth > 0) past.set(depth - 1, now);
  }
};

// made: of each row and head its step and decay, or of each row and component its step.
template <bool kByComponent>
struct ScanRow {
  static constexpr int kThreads = 32, kMostDepth = kMostStateDepth;
  Rows<const float> x, b, c;
  Rows<float> y;
  Rows<const float> made;
  const float *a, *skip;  // of a scan by components [depth, width]; of each head, or component
  int width, depth, heads_together;
  QR_DEVICE void row(int row, int head, int p, const Column& state, bool) const {
    const float* of_row = made.row(row);
    const float step = dev::load(of_row + (kByComponent ? p : 2 * head));
    float decay = kByComponent ? 0.0F : dev::load(of_row + 2 * head + 1);
    const int64_t shared = int64_t{head / heads_together} * depth, at = int64_t{head} * width + p;
    const float *weights = b.row(row) + shared, *shares = c.row(row) + shared;
    const float component = dev::load(x.row(row) + at), in = dev::mul(component, step);
    float sum = 0.0F;
    for (int s = 0; s < depth; ++s) {
      if constexpr (kByComponent) decay = exp_of(dev::mul(step, dev::load(a + int64_t{s} * width + p)));
      const float now = dev::fma(state.get(s), decay, dev::mul(dev::load(weights + s), in));
      state.set(s, now);
      sum = dev::fma(now, dev::load(shares + s), sum);
    }
    dev::store(y.row(row) + at, dev::fma(component, dev::load(skip + (kByComponent ? p : head)), sum));
  }
};

// made: as DeltaRow (ops/state_rows.h) has it: of each key head q and k, then of heads their fades, then their shares.
struct DeltaRuleRow {
  static constexpr int kThreads = 32, kMostDepth = kMostStateDepth;
  Rows<const float> v;
  Rows<float> y;
  Rows<const float> made;
  int width, depth, n_heads, n_key_heads, n_fades;  // fades of a head: 1 or depth
  bool shares_in_turn;
  QR_DEVICE void row(int row, int head, int p, const Column& state, bool is_new) const {
    const int key_head = shares_in_turn ? head % n_key_heads : head / (n_heads / n_key_heads);
    const float *query = made.row(row) + int64_t{2} * key_head * depth, *key = query + depth;
    const float* all_fades = made.row(row) + int64_t{2} * n_key_heads * depth;
    const float* fades = all_fades + int64_t{head} * n_fades;
    const float share = dev::load(all_fades + int64_t{n_heads} * n_fades + head);
    const auto faded = [&](int s) { return dev::mul(state.get(s), dev::load(fades + (n_fades > 1 ? s : 0))); };
    float added = 0.0F;
    for (int s = 0; !is_new && s < depth; ++s) added = dev::fma(faded(s), dev::load(key + s), added);
    const int64_t at = int64_t{head} * width + p;
    added = dev::mul(dev::sub(dev::load(v.row(row) + at), added), share);
    float sum = 0.0F;
    for (int s = 0; s < depth; ++s) {
      const float now = dev::fma(added, dev::load(key + s), faded(s));
      state.set(s, now);
      sum = dev::fma(now, dev::load(query + s), sum);
    }
    dev::store(y.row(row) + at, sum);
  }
};

// made: of each head fades | keys, and of RWKV 7 what goes | comes back, [depth] each.
template <bool kHasRate>
struct WkvRow {
  static constexpr int kThreads = 32, kMostDepth = kMostStateDepth;
  Rows<const float> r, v;
  Rows<float> y;
  Rows<const float> made;
  int width, depth;  // the same
  QR_DEVICE void row(int row, int head, int p, const Column& state, bool is_new) const {
    const int64_t begin = int64_t{head} * width;
    const float* fades = made.row(row) + (kHasRate ? 4 : 2) * begin;
    const float *keys = fades + depth, *gone = keys + depth, *back = gone + depth, *asked = r.row(row) + begin;
    const float value = dev::load(v.row(row) + begin + p);
    float removed = 0.0F, sum = 0.0F;
    for (int s = 0; kHasRate && !is_new && s < depth; ++s) {
      removed = dev::fma(state.get(s), dev::load(gone + s), removed);
    }
    for (int s = 0; s < depth; ++s) {
      const float before = state.get(s);
      float now = dev::fma(before, dev::load(fades + s), dev::mul(dev::load(keys + s), value));
      if constexpr (kHasRate) now = dev::fma(dev::load(back + s), removed, now);
      sum = dev::fma(kHasRate ? now : before, dev::load(asked + s), sum);
      state.set(s, now);
    }
    dev::store(y.row(row) + begin + p, sum);
  }
};

}  // namespace quire::cuda
