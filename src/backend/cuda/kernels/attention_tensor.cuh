// Attention over a BF16 cache by bf16 mma (docs/numerics.md, "Tensor arithmetic"): what AttendChunk (attention.cuh)
// makes of a chunk of 256 keys, for heads of up to 256 components whose values are no part of their keys. Scores are
// sums over all components in order, values' over positions in order, 16 at a time. Keys, and values' components, are
// the rows of mma, queries its columns: words of the cache are its operands as they lie.
#pragma once
#include "backend/cuda/kernels/attention.cuh"

namespace quire::cuda {

// Tiles of kGroups · 8 queries, kWarps warps. A warp has 16 / kWarps strips of keys, then as many tiles of components.
template <int kGroups, int kWarpsOf>
struct AttendTensor : AttendChunk<CodecBF16, kGroups, 8, kWarpsOf / kGroups, kUsualHead> {
  using Base = AttendChunk<CodecBF16, kGroups, 8, kWarpsOf / kGroups, kUsualHead>;
  using typename Base::Bounds;
  using typename Base::Part;
  using Two = Pack<float, 2>;
  static constexpr int kWarps = kWarpsOf, kTile = Base::kTile, kStages = Base::kStages, kStrips = Base::kStrips;
  static constexpr int kEach = kStrips / kWarps;
  static constexpr int kPitch = kChunk + 8;             // of a query's scores, which begin at different banks
  static constexpr int kScoresAt = Base::kSharedBytes;  // then weights
  static constexpr int kSharedBytes = kScoresAt + kTile * kPitch * 4;
  static constexpr int kRoom = (227 << 10) / (kSharedBytes + 1024);
  static constexpr int kResident = kRoom < Base::kWanted ? kRoom : Base::kWanted;
  static constexpr int kMostFold = 0;  // FP32 instructions for each mma
  static_assert(kUsualHead == kChunk && kSharedBytes <= 163 * 1024);
  using Sums = float[kEach][kGroups][4];

  QR_DEVICE int lane() const { return dev::thread() % 32; }
  QR_DEVICE int warp() const { return dev::thread() / 32; }
  // Of number i of four that mma leaves in a lane: its row, and the query of its column.
  QR_DEVICE int row_of(int i) const { return lane() / 4 + i / 2 * 8; }
  QR_DEVICE int query_of(int group, int i) const { return group * 8 + lane() % 4 * 2 + i % 2; }
  // Two numbers that are BF16.
  QR_DEVICE uint32_t pair(float low, float high) const {
    return dev::pick_bytes(dev::as_bits(low), dev::as_bits(high), 0x7632U);
  }

  // 16 components of all keys.
  QR_DEVICE void add_slice(int slice, Sums& s) const {
    const int d = slice * Base::kSlice + lane() % 4 * 2, k_dim = this->cache.k_dim;
    const bool is_in[2] = {d < k_dim, d + 8 < k_dim};
    uint32_t b[kGroups][2];
    QR_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const dev::Shared<Two> queries(g * Base::kGroupBytes);
      QR_UNROLL
      for (int h = 0; h < 2; ++h) {
        b[g][h] = 0;
        if (!is_in[h]) continue;
        const Two two = queries[(lane() / 4 * kUsualHead + d + 8 * h) / 2];
        b[g][h] = pair(two.x[0], two.x[1]);
      }
    }
    QR_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const dev::Shared<uint32_t> words(this->ring_of(slice) + (warp() * kEach + i) * Base::kStripBytes);
      uint32_t a[4];
      QR_UNROLL
      for (int j = 0; j < 4; ++j) {
        a[j] = is_in[j / 2] ? static_cast<uint32_t>(words[(lane() % 4 + j / 2 * 4) * 16 + lane() / 4 + j % 2 * 8]) : 0U;
      }
      QR_UNROLL
      for (int g = 0; g < kGroups; ++g) dev::mma_bf16(s[i][g], a, b[g]);
    }
  }

  QR_DEVICE float finished(float x, int key, const Bounds& seen) const {
    x = dev::mul(x, this->scale);
    if (this->soft_cap > 0.0F) x = soft_capped<Plain>(x, this->soft_cap);
    if (this->slopes != nullptr) {
      x = dev::fma(dev::as_float(static_cast<uint32_t>(seen.x[3])), dev::whole(key - seen.x[2]), x);
    }
    return key < seen.x[0] || key >= seen.x[1] ? -kInfinity : x;
  }
  QR_DEVICE void put_scores(const Sums& s) const {
    const dev::Shared<float> scores(kScoresAt);
    const dev::Shared<Bounds> bounds(Base::kBoundsAt);
    QR_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const Bounds seen[2] = {bounds[query_of(g, 0)], bounds[query_of(g, 1)]};
      QR_UNROLL
      for (int i = 0; i < kEach; ++i) {
        QR_UNROLL
        for (int j = 0; j < 4; ++j) {
          const int key = (warp() * kEach + i) * 16 + row_of(j);
          scores[query_of(g, j) * kPitch + key] = finished(s[i][g][j], key, seen[j % 2]);
        }
      }
    }
  }

  // Scores become weights, and a query's largest score and the sum of its weights are stored: position t is in lane t
  // mod 16 of the half of a warp that has the query.
  QR_DEVICE void weigh() const {
    const dev::Shared<float> scores(kScoresAt);
    const dev::Shared<Bounds> bounds(Base::kBoundsAt);
    QR_UNROLL
    for (int first = 0; first < kTile; first += 2 * kWarps) {
      const int query = first + warp() * 2 + lane() / 16, mine = query * kPitch + lane() % 16;
      const Bounds seen = bounds[query];
      float m = -kInfinity, l = 0.0F, s[kStrips];
      QR_UNROLL
      for (int i = 0; i < kStrips; ++i) {
        s[i] = scores[mine + i * 16];
        m = s[i] > m ? s[i] : m;  // no NaN
      }
      for (int n = 8; n > 0; n /= 2) {
        const float other = dev::shuffle_xor(m, n);
        m = other > m ? other : m;
      }
      QR_UNROLL
      for (int i = 0; i < kStrips; ++i) {
        const int t = i * 16 + lane() % 16;
        const float p = t < seen.x[0] || t >= seen.x[1] ? 0.0F : exp_of(dev::sub(s[i], m));
        l = dev::add(l, p);
        scores[mine + i * 16] = p;
      }
      l = folded(l);
      float* to = this->state(query);
      if (lane() % 16 > 0 || to == nullptr) continue;
      dev::store(to + this->cache.v_dim, m);
      dev::store(to + this->cache.v_dim + 1, l);
    }
  }

  // Of a word of two positions, the first at t, zeros in the place of what is not seen.
  QR_DEVICE uint32_t seen_of(uint32_t word, int t, int lo, int hi) const {
    const auto sees = [&](int key) { return key >= lo && key < hi; };
    return word & ((sees(t) ? 0x0000ffffU : 0U) | (sees(t + 1) ? 0xffff0000U : 0U));
  }
  // Adds a strip of values, at `from`, for queries of rows that see a key of it. What a row does not see is zeros to it
  // alone: it may be written for a later row, and be no number.
  QR_DEVICE void add_strip(const Part& p, int strip, int from, const Bounds& all, Sums& o) const {
    const dev::Shared<Two> weights(kScoresAt);
    const dev::Shared<uint32_t> words(from);
    const dev::Shared<Bounds> bounds(Base::kBoundsAt);
    const int t = strip * 16, mine = t + lane() % 4 * 2, v_dim = this->cache.v_dim;
    const bool is_seen_by_all = t >= all.x[0] && t + 16 <= all.x[1];
    uint32_t b[kGroups][2];
    QR_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      QR_UNROLL
      for (int h = 0; h < 2; ++h) {
        const Two two = weights[((g * 8 + lane() / 4) * kPitch + mine + 8 * h) / 2];
        b[g][h] = pair(rounded_to_bf16(two.x[0]), rounded_to_bf16(two.x[1]));
      }
    }
    QR_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int first = (i * kWarps + warp()) * 16;
      if (first >= v_dim) continue;
      uint32_t a[4];
      QR_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int d = first + lane() / 4 + j % 2 * 8;
        a[j] = words[(lane() % 4 + j / 2 * 4) * v_dim + (d < v_dim ? d : 0)];
      }
      if (is_seen_by_all) {
        QR_UNROLL
        for (int g = 0; g < kGroups; ++g) dev::mma_bf16(o[i][g], a, b[g]);
        continue;
      }
      for (int row = 0; row < p.n_rows; ++row) {
        const Bounds seen = bounds[row * p.n_heads];
        if (seen.x[0] >= t + 16 || seen.x[1] <= t) continue;
        uint32_t of_row[4];
        QR_UNROLL
        for (int j = 0; j < 4; ++j) of_row[j] = seen_of(a[j], mine + j / 2 * 8, seen.x[0], seen.x[1]);
        QR_UNROLL
        for (int g = 0; g < kGroups; ++g) {
          if (g * 8 >= (row + 1) * p.n_heads || (g + 1) * 8 <= row * p.n_heads) continue;
          float sums[4] = {o[i][g][0], o[i][g][1], o[i][g][2], o[i][g][3]};
          dev::mma_bf16(sums, of_row, b[g]);
          QR_UNROLL
          for (int j = 0; j < 4; ++j) {
            if (query_of(g, j) / p.n_heads == row) o[i][g][j] = sums[j];
          }
        }
      }
    }
  }

  QR_DEVICE void keep(const Sums& o) const {
    QR_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      QR_UNROLL
      for (int j = 0; j < 4; ++j) {
        float* to = this->state(query_of(g, j));
        if (to == nullptr) continue;
        QR_UNROLL
        for (int i = 0; i < kEach; ++i) {
          const int d = (i * kWarps + warp()) * 16 + row_of(j);
          if (d < this->cache.v_dim) dev::store(to + d, o[i][g][j]);
        }
      }
    }
  }

  // Keys that all rows see.
  QR_DEVICE Bounds seen_by_all(const Part& p) const {
    const dev::Shared<Bounds> bounds(Base::kBoundsAt);
    Bounds all = {{0, kChunk, 0, 0}};
    for (int row = 0; row < p.n_rows; ++row) {
      const Bounds seen = bounds[row * p.n_heads];
      all.x[0] = seen.x[0] > all.x[0] ? seen.x[0] : all.x[0];
      all.x[1] = seen.x[1] < all.x[1] ? seen.x[1] : all.x[1];
    }
    return all;
  }

  QR_DEVICE void sum_values(const Part& p) const {
    const Bounds all = seen_by_all(p);
    Sums o = {};
    int stage = this->n_slices();
    for (int first = p.first_strip(); first < p.end_strip(); first += this->strips_together, ++stage) {
      this->next_stage(p, stage);
      int from = this->ring_of(stage);
      for (int strip = first; strip < first + this->strips_together && strip < p.end_strip(); ++strip) {
        add_strip(p, strip, from, all, o);
        from += this->strip_bytes();
      }
    }
    keep(o);
  }

  QR_DEVICE void attend(const Part& p) const {
    if (p.hi <= p.lo) return this->attend_nothing(p);
    this->prepare(p);
    dev::sync();
    for (int i = 0; i < kStages - 1; ++i) this->begin_stage(p, i);
    {
      Sums s = {};
      for (int i = 0; i < this->n_slices(); ++i) {
        this->next_stage(p, i);
        add_slice(i, s);
      }
      put_scores(s);
    }
    dev::sync();
    weigh();
    sum_values(p);  // a barrier stands before its first stage
  }

  QR_DEVICE void operator()() const {
    this->each_part([&](const Part& p) { attend(p); });
  }
};

// Of rows that are few in their sequences; of those with many.
using AttendTensorRow = AttendTensor<1, 4>;
using AttendTensorRows = AttendTensor<4, 8>;

}  // namespace quire::cuda
