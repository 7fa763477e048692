#include "engine/growth.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace quire {

size_t AnswerLengths::bucket_of(int n_tokens) {
  const auto n = static_cast<uint32_t>(std::max(n_tokens, 0));
  if (n < 4) return n;
  const int octave = static_cast<int>(std::bit_width(n)) - 1;
  return static_cast<size_t>(4 * (octave - 1)) + ((n >> (octave - 2)) & 3U);
}

// So many, and the older half counts half.
void AnswerLengths::add(int n_tokens) {
  constexpr int64_t kMost = 512;
  if (n_ == kMost) {
    n_ = 0;
    for (Bucket& bucket : buckets_) {
      const int64_t half = bucket.n / 2;
      bucket.n_tokens = bucket.n == 0 ? 0 : bucket.n_tokens / bucket.n * half;
      n_ += bucket.n = half;
    }
  }
  Bucket& bucket = buckets_[bucket_of(n_tokens)];
  ++bucket.n;
  bucket.n_tokens += n_tokens;
  ++n_;
}

int64_t AnswerLengths::left(int n_tokens) const {
  Bucket longer;
  for (size_t i = bucket_of(n_tokens) + 1; i < buckets_.size(); ++i) {
    longer.n += buckets_[i].n;
    longer.n_tokens += buckets_[i].n_tokens;
  }
  if (longer.n > 0) return (longer.n_tokens + longer.n - 1) / longer.n - n_tokens;
  return n_ > 0 ? n_tokens : 0;
}

int64_t peak_of(std::span<Growing> all) {
  std::ranges::sort(all, [](const Growing& a, const Growing& b) { return a.n_left > b.n_left; });
  int64_t n_freed = 0, n_missing = 0, n = 0, out = 0;
  for (const Growing& one : all) n_freed += one.n_freed;
  for (const Growing& one : all) {
    n_freed -= one.n_freed;
    n_missing += one.n_missing;
    out = std::max(out, n_missing + ++n * one.n_left - n_freed);
  }
  return out;
}

Growth::Growth(double share, int64_t most_tokens)
    : share_(static_cast<int64_t>(std::llround(share * static_cast<double>(kUnit)))),
      most_(most_tokens * kUnit),
      credit_(most_) {}

int64_t Growth::left(const Sequence& seq, int64_t most) const {
  if (credit_ <= 0) return most;
  const int64_t expected = std::min(lengths_.left(seq.n_generated()), most);
  constexpr int64_t kWhole = 1024;
  const int64_t spent = (most_ - credit_) / (most_ / kWhole + 1);
  return expected + (most - expected) * spent / kWhole;
}

void Growth::add(int64_t units) { credit_ = std::min(most_, credit_ + units); }

void Growth::computed(int64_t n) { add(n * share_); }

void Growth::lose(Sequence& seq) {
  if (!bounded()) return;
  seq.n_at_stake = seq.account.n_ever_computed;
  credit_ -= seq.n_at_stake * kUnit;
}

void Growth::find_again(Sequence& seq, int64_t n_found) {
  add(std::min(std::exchange(seq.n_at_stake, 0), n_found) * kUnit);
}

}  // namespace quire
