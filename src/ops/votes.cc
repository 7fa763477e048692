#include "ops/votes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "ops/op_check.h"
#include "ops/seen_keys.h"

namespace quire {
namespace {

constexpr int kRowsTogether = 16;    // of one task: each strip of keys is decoded once for all of them
constexpr int kMostQueries = 1024;   // of one task: rows and the heads that share their keys
constexpr double kLeastScore = -30;  // below the largest: such a key has less than a unit of a vote

// exp(x) for kLeastScore ≤ x ≤ 0 by additions and multiplications alone, so that it is the same on every machine: the
// nearest power of two and ten terms of the series. Relative error below 1e-12.
double exp_of(double x) {
  constexpr double kLog2e = 1.4426950408889634074, kLn2 = 0.69314718055994530942;
  const double n = std::floor(x * kLog2e + 0.5);
  const double r = x - n * kLn2;
  double sum = 1;
  for (int i = 10; i >= 1; --i) sum = 1 + sum * r / i;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52U);
}

// A row's head: what it has seen so far of the keys' largest score and of Σ exp(score − largest).
struct Query {
  const float* q;
  int first, end;  // keys that it sees
  double largest = -INFINITY, sum = 0;
};

// One head's keys and the rows that are counted for it together.
class Count {
 public:
  Count(const AttentionPart& part, const VotingRows& rows, int kv_head)
      : kv_(*part.kv),
        params_(*part.params),
        rows_(rows),
        head_(kv_head),
        blocks_(part.meta->blocks[static_cast<size_t>(params_.group)].row<int32_t>(rows.seq)),
        block_tokens_(kv_.groups[static_cast<size_t>(params_.group)].block_tokens) {}

  void add(const float* q, const SeenKeys& seen) {
    queries_[static_cast<size_t>(n_++)] = {q, seen.first, seen.end};
    first_ = n_ == 1 ? seen.first : std::min(first_, seen.first);
    end_ = std::max(end_, seen.end);
  }

  void run() {
    for_each_strip([this](int begin) {
      for (Query& query : all()) weigh(query, begin);
    });
    for_each_strip([this](int begin) {
      for (const Query& query : all()) vote(query, begin);
    });
  }

 private:
  std::span<Query> all() { return std::span(queries_).first(static_cast<size_t>(n_)); }

  // Strips of keys in order, decoded into keys_.
  template <class F>
  void for_each_strip(const F& f) {
    for (int begin = first_ / kStripTokens * kStripTokens; begin < end_; begin += kStripTokens) {
      const int64_t slot = int64_t{blocks_[begin / block_tokens_]} * block_tokens_ + begin % block_tokens_;
      const KvPlace at = kv_place(kv_, params_, slot, head_);
      const int n = std::min(kStripTokens, end_ - begin);  // behind them nothing is written
      for (int t = 0; t < n; ++t) {
        params_.k_codec->get_k(at.k, t, params_.k_dim, row_.data());
        for (int d = 0; d < params_.k_dim; ++d)
          keys_[static_cast<size_t>(d)][static_cast<size_t>(t)] = row_[static_cast<size_t>(d)];
      }
      f(begin);
    }
  }

  using Scores = std::array<float, kStripTokens>;
  Scores scores(const Query& query) const {
    Scores out{};
    for (int d = 0; d < params_.k_dim; ++d) {
      const Scores& key = keys_[static_cast<size_t>(d)];
      for (size_t t = 0; t < out.size(); ++t) out[t] += key[t] * query.q[d];
    }
    for (float& s : out) s *= params_.scale;
    return out;
  }
  double capped(float score) const {
    const auto s = static_cast<double>(score);
    if (params_.soft_cap <= 0) return s;
    const auto cap = static_cast<double>(params_.soft_cap);  // cap · tanh(s / cap)
    const double e = exp_of(std::max(-2 * std::fabs(s) / cap, kLeastScore));
    return std::copysign(cap * (1 - e) / (1 + e), s);
  }

  // Of the strip's keys from `begin` on those that the query sees.
  template <class F>
  void for_each_seen(const Query& query, int begin, const F& f) const {
    const int from = std::max(query.first - begin, 0), to = std::min(query.end - begin, kStripTokens);
    if (from >= to) return;
    const Scores found = scores(query);
    for (int t = from; t < to; ++t) {
      const double s = capped(found[static_cast<size_t>(t)]);
      if (std::isfinite(s)) f(s);
    }
  }
  void weigh(Query& query, int begin) const {
    for_each_seen(query, begin, [&](double s) {
      if (s > query.largest) {
        const double less = query.largest - s;
        query.sum *= less < kLeastScore ? 0 : exp_of(less);
        query.largest = s;
      }
      const double below = s - query.largest;
      if (below >= kLeastScore) query.sum += exp_of(below);
    });
  }
  // Tasks of other heads add to the same numbers.
  void vote(const Query& query, int begin) const {
    int64_t units = 0;
    for_each_seen(query, begin, [&](double s) {
      const double below = s - query.largest;
      if (below < kLeastScore) return;
      units += static_cast<int64_t>(exp_of(below) / query.sum * static_cast<double>(kWholeVote));
    });
    if (units == 0) return;
    std::atomic_ref(rows_.votes[begin / block_tokens_]).fetch_add(units, std::memory_order_relaxed);
  }

  const KvView& kv_;
  const AttnParams& params_;
  const VotingRows& rows_;
  const int head_;
  const int32_t* blocks_;
  const int block_tokens_;
  int n_ = 0, first_ = 0, end_ = 0;
  std::array<Query, kMostQueries> queries_;
  std::array<Scores, kMaxHeadDim> keys_;  // [component][token]
  std::array<float, kMaxHeadDim> row_;
};

// Rows [begin, end) of `rows`, of the query heads [first_head, end_head) that share the keys of kv_head.
struct Task {
  const VotingRows& rows;
  int64_t begin, end;
  int kv_head;
};

void count(const Task& task, const Tensor& q, const AttentionPart& part) {
  const AttnMeta& meta = *part.meta;
  const AttnParams& params = *part.params;
  const int n_sharing = params.n_heads / params.n_kv_heads;
  Count counting(part, task.rows, task.kv_head);
  for (int64_t row = task.begin; row < task.end; ++row) {
    const SeenKeys seen =
        seen_keys(meta.first_key.ptr<int32_t>()[row], meta.end_key.ptr<int32_t>()[row], params.window, params.n_kept);
    for (int h = task.kv_head * n_sharing; h < (task.kv_head + 1) * n_sharing; ++h) {
      counting.add(q.row<float>(row) + int64_t{h} * params.k_dim, seen);
    }
  }
  counting.run();
}

}  // namespace

void count_votes(Ops& ops, const Tensor& q, const AttentionPart& part, std::span<const VotingRows> rows) {
  const AttnParams& params = *part.params;
  const int n_sharing = params.n_heads / params.n_kv_heads;
  QR_CHECK(n_sharing <= kMostQueries && !params.k_codec->packs() && params.n_kept == 0 && params.most_slope_bits <= 0);
  ops.finish();
  const int64_t together = std::min(kRowsTogether, kMostQueries / n_sharing);
  for (const VotingRows& some : rows) {
    const int64_t n_runs = (some.end - some.begin + together - 1) / together;
    ops.each(n_runs * params.n_kv_heads, [&](int64_t i) {
      const int64_t begin = some.begin + i / params.n_kv_heads * together;
      count({some, begin, std::min(begin + together, some.end), static_cast<int>(i % params.n_kv_heads)}, q, part);
    });
  }
}

}  // namespace quire
