// Ids of tokens that the host does not know yet: what is drawn of each row of logits, and the ids of the next step's
// rows. Draws are those of ops/sample_filters.h over a whole vocabulary, sum for sum.
#pragma once
#include "backend/cuda/kernels/math.cuh"

namespace quire::cuda {

// picked[row] = the lowest id of the row's largest logit, or what `draws` give at a temperature. Of a row with a NaN or
// an infinity some id of the row. Grid: rows.
struct PickTokens {
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kLanes = 16;  // lanes: of a sum
  static constexpr int kChunk = 1024, kMostChunks = 1024;
  static constexpr int kMost = kChunk * kMostChunks;  // logits of a row
  static constexpr int kBestAt = 0, kChosenAt = kWarps * 8, kSumsAt = kChosenAt + 16;
  static constexpr int kSharedBytes = kSumsAt + (kMostChunks > kChunk ? kMostChunks : kChunk) * 4;
  int32_t* picked;
  Rows<const float> logits;
  const int32_t* draws;  // three words a row: bits of the temperature, of the draw's two halves
  int n;                 // logits of a row, 1 to kMost

  struct Best {
    float value;
    uint32_t id;
  };
  QR_DEVICE Best better(Best a, Best b) const {
    return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
  }

  // The same for every thread.
  QR_DEVICE Best largest(const float* row) const {
    const int thread = dev::thread();
    const dev::Shared<float> values(kBestAt);
    const dev::Shared<uint32_t> ids(kBestAt + kWarps * 4);
    Best best{dev::load(row), 0};
    for (int i = thread; i < n; i += kThreads) best = better(best, {dev::load(row + i), static_cast<uint32_t>(i)});
    for (int step = 16; step > 0; step /= 2)
      best = better(best, {dev::shuffle_xor(best.value, step), dev::shuffle_xor(best.id, step)});
    if (thread % 32 == 0) {
      values[thread / 32] = best.value;
      ids[thread / 32] = best.id;
    }
    dev::sync();
    best = {values[0], ids[0]};
    for (int i = 1; i < kWarps; ++i) best = better(best, {values[i], ids[i]});
    return best;
  }

  QR_DEVICE float share(const float* row, int i, float max, float factor) const {
    return exp_of(dev::mul(dev::sub(dev::load(row + i), max), factor));
  }

  // Of the shares of each chunk, in 16 lanes.
  QR_DEVICE void sum_chunks(const float* row, float max, float factor, int n_chunks) const {
    const dev::Shared<float> sums(kSumsAt);
    const int lane = dev::thread() % kLanes, group = dev::thread() / kLanes;
    for (int first = 0; first < n_chunks; first += kThreads / kLanes) {
      const int chunk = first + group, end = (chunk + 1) * kChunk < n ? (chunk + 1) * kChunk : n;
      float sum = 0.0F;
      for (int i = chunk * kChunk + lane; i < end; i += kLanes) sum = dev::add(sum, share(row, i, max, factor));
      sum = folded(sum);
      if (lane == 0 && chunk < n_chunks) sums[chunk] = sum;
    }
  }

  struct Chosen {
    int chunk;  // the first that ends behind the draw, or where rounding leaves none the last with a share
    double reached, wanted;
  };
  QR_DEVICE Chosen choose(double draw, int n_chunks) const {
    const dev::Shared<float> sums(kSumsAt);
    double total = 0.0;
    for (int c = 0; c < n_chunks; ++c) total = dev::add(total, dev::widened(sums[c]));
    Chosen out{0, 0.0, dev::mul(draw, total)};
    for (int c = 0; c < n_chunks; ++c) {
      const double sum = dev::widened(sums[c]);
      if (!(sum > 0.0)) continue;
      out.chunk = c;
      const double next = dev::add(out.reached, sum);
      if (next > out.wanted) break;
      out.reached = next;
    }
    return out;
  }

  QR_DEVICE void operator()() const {
    const int thread = dev::thread(), n_chunks = (n + kChunk - 1) / kChunk;
    const dev::Shared<uint32_t> chosen(kChosenAt);
    const dev::Shared<float> values(kSumsAt);
    const float* row = logits.row(dev::block_x());
    const int32_t* by = draws + int64_t{dev::block_x()} * 3;
    const float temperature = dev::as_float(static_cast<uint32_t>(dev::load(by)));
    const Best best = largest(row);
    if (!(temperature > 0.0F)) {
      if (thread == 0) dev::store(picked + dev::block_x(), static_cast<int32_t>(best.id));
      return;
    }
    const float factor = dev::div(1.0F, temperature);
    sum_chunks(row, best.value, factor, n_chunks);
    dev::sync();
    Chosen of{};
    if (thread == 0) {
      const auto low = static_cast<uint32_t>(dev::load(by + 1)), high = static_cast<uint32_t>(dev::load(by + 2));
      of = choose(dev::as_double(low, high), n_chunks);
      chosen[0] = static_cast<uint32_t>(of.chunk);
    }
    dev::sync();
    const int begin = static_cast<int>(chosen[0]) * kChunk, size = n - begin < kChunk ? n - begin : kChunk;
    for (int i = thread; i < size; i += kThreads) values[i] = share(row, begin + i, best.value, factor);
    dev::sync();
    if (thread > 0) return;
    int at = 0;
    for (int i = 0; i < size; ++i) {
      const float value = values[i];
      if (!(value > 0.0F)) continue;
      at = i;
      of.reached = dev::add(of.reached, dev::widened(value));
      if (of.reached > of.wanted) break;
    }
    dev::store(picked + dev::block_x(), begin + at);
  }
};

struct TakePicked {  // out[i] = picked[from[i]], ids[i] where from[i] is −1; of one row
  int32_t* out;
  const int32_t *ids, *picked, *from;
  QR_DEVICE void of(int64_t, int i) const {
    const int32_t at = dev::load(from + i);
    dev::store(out + i, at < 0 ? dev::load(ids + i) : dev::load(picked + at));
  }
};

}  // namespace quire::cuda
