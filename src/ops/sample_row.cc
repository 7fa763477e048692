#include "ops/sample_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <new>

#include "ops/sample_filters.h"

namespace quire {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

bool plain_block_max(float* out, const float* x, int64_t n) {
  bool ok = true;
  for (int64_t begin = 0; begin < n; begin += kSampleBlock) {
    float max = kNone;
    for (int64_t i = begin; i < std::min(n, begin + kSampleBlock); ++i) {
      ok = ok && x[i] < std::numeric_limits<float>::infinity();
      max = std::max(max, x[i]);
    }
    out[begin / kSampleBlock] = max;
  }
  return ok;
}

float plain_exp_row(float* out, const float* x, int64_t n, float max, float factor) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto p = static_cast<float>(std::exp(static_cast<double>((x[i] - max) * factor)));
    if (out != nullptr) out[i] = p;
    sum += static_cast<double>(p);
  }
  return static_cast<float>(sum);
}

// A row and the largest value of each of its blocks.
class Row {
 public:
  Row(std::span<float> x, const SampleKernels& kernels, SampleScratch& scratch)
      : x_(x), kernels_(kernels), scratch_(scratch) {}

  bool scan() {
    scratch_.block_max.resize((x_.size() + kSampleBlock - 1) / kSampleBlock);
    return kernels_.block_max(scratch_.block_max.data(), x_.data(), static_cast<int64_t>(x_.size()));
  }
  float max() const { return *std::max_element(scratch_.block_max.begin(), scratch_.block_max.end()); }
  Token argmax(float max) const {
    const auto block = std::find(scratch_.block_max.begin(), scratch_.block_max.end(), max);
    const auto from = x_.begin() + (block - scratch_.block_max.begin()) * kSampleBlock;
    return static_cast<Token>(std::find(from, x_.end(), max) - x_.begin());
  }
  // In place; scratch.originals remembers what was there. False when a logit is no number any more.
  bool edit(std::span<const Edit> edits) {
    scratch_.originals.clear();
    scratch_.originals.reserve(edits.size());  // once they begin they are all made
    bool numbers = true;
    for (const Edit& edit : edits) {
      QR_DCHECK(edit.id >= 0 && edit.id < std::ssize(x_));
      float& x = x_[static_cast<size_t>(edit.id)];
      scratch_.originals.push_back(x);
      x = (x > 0.0F ? x / edit.mul : x * edit.mul) + edit.add;
      numbers = numbers && !std::isnan(x);
    }
    // A block that a value left or entered is looked at again; many of them, and the whole row is.
    if (edits.size() > scratch_.block_max.size()) {
      scan();
      return numbers;
    }
    for (const Edit& edit : edits) {
      const int64_t begin = edit.id - edit.id % kSampleBlock;
      const int64_t n = std::min(kSampleBlock, static_cast<int64_t>(x_.size()) - begin);
      kernels_.block_max(&scratch_.block_max[static_cast<size_t>(begin / kSampleBlock)], x_.data() + begin, n);
    }
    return numbers;
  }
  void undo(std::span<const Edit> edits) {
    for (size_t i = edits.size(); i-- > 0;) x_[static_cast<size_t>(edits[i].id)] = scratch_.originals[i];
  }
  // A copy under the mask, block by block: what is allowed is mostly nearly all of a block or nothing. Models pad their
  // vocabulary: ids behind the mask are forbidden.
  Row masked(std::span<const uint32_t> bitmask) const {
    const auto word = [&](size_t i) { return i < bitmask.size() ? uint64_t{bitmask[i]} : 0U; };
    scratch_.edited.resize(x_.size());
    for (size_t b = 0; b < scratch_.block_max.size(); ++b) {
      const size_t begin = b * kSampleBlock;
      const size_t n = std::min<size_t>(kSampleBlock, x_.size() - begin);
      const uint64_t all = ~uint64_t{0} >> (kSampleBlock - static_cast<int64_t>(n));
      mask_block(b, n, (word(2 * b) | word(2 * b + 1) << 32) & all, all);
    }
    return Row(scratch_.edited, kernels_, scratch_);
  }
  std::span<const float> values() const { return x_; }

 private:
  void mask_block(size_t b, size_t n, uint64_t allowed, uint64_t all) const {
    const float* const x = x_.data() + b * kSampleBlock;
    float* const out = scratch_.edited.data() + b * kSampleBlock;
    float& max = scratch_.block_max[b];
    if (std::popcount(allowed) * 2 < kSampleBlock) {
      std::fill_n(out, n, kNone);
      max = kNone;
      for (uint64_t left = allowed; left != 0; left &= left - 1) {
        const auto i = static_cast<size_t>(std::countr_zero(left));
        out[i] = x[i];
        max = std::max(max, x[i]);
      }
      return;
    }
    std::copy_n(x, n, out);
    if (allowed == all) return;
    for (uint64_t left = ~allowed & all; left != 0; left &= left - 1) out[std::countr_zero(left)] = kNone;
    kernels_.block_max(&max, out, static_cast<int64_t>(n));
  }

  std::span<float> x_;
  const SampleKernels& kernels_;
  SampleScratch& scratch_;
};

// The logarithm of the softmax's denominator; not finite when the row has an infinity that the scan passed over.
float log_denominator(std::span<const float> x, float max, const SampleKernels& kernels) {
  const float sum = kernels.exp_row(nullptr, x.data(), static_cast<int64_t>(x.size()), max, 1.0F);
  return max + static_cast<float>(std::log(static_cast<double>(sum)));
}

struct Scored {
  std::span<const float> x;
  float max, log_sum;
};

void report_top(const Scored& row, int n_top, const SampleKernels& kernels, SampleScratch& scratch, Sampled& out) {
  if (n_top <= 0) return;
  SampleCandidates all(row.x, row.max, kernels, scratch);
  all.largest(n_top);
  for (const auto& c : scratch.ranked) out.top.push_back({c.id, c.key - row.log_sum});
}

// Into out.token; -1 where nothing is allowed.
void pick(
    const Row& row, const SampleParams& params, const SampleKernels& kernels, SampleScratch& scratch, Sampled& out) {
  const float max = row.max();
  if (!std::isfinite(max)) return;
  if (params.temperature <= 0.0F) {
    out.token = row.argmax(max);
    if (params.of_drawn && params.n_top > 0) out.top.push_back({out.token, 0.0F});
    return;
  }
  SampleCandidates candidates(row.values(), max, kernels, scratch);
  for (const Filter filter : params.order) candidates.filter(filter, params);
  out.token = candidates.draw(params.draw, std::isfinite(params.mirostat_mu) ? &out.surprise : nullptr);
  if (params.of_drawn) candidates.tell_shares(params.n_top, out);
}

// Edits that are undone when it goes.
class Edited {
 public:
  Edited(Row& row, std::span<const Edit> edits)
      : row_(row), edits_(edits), numbers_(edits.empty() || row.edit(edits)) {}
  ~Edited() { row_.undo(edits_); }
  Edited(const Edited&) = delete;
  Edited& operator=(const Edited&) = delete;
  bool numbers() const { return numbers_; }

 private:
  Row& row_;
  const std::span<const Edit> edits_;
  const bool numbers_;
};

void sample(std::span<float> logits,
            const SampleParams& params,
            const SampleKernels& kernels,
            SampleScratch& scratch,
            Sampled& out) {
  Row row(logits, kernels, scratch);
  if (!row.scan()) return;
  const float max = row.max();
  if (!std::isfinite(max)) return;
  const bool own = params.logprob && !params.of_drawn;
  const float log_sum = own ? log_denominator(logits, max, kernels) : 0.0F;
  if (own) report_top({logits, max, log_sum}, params.n_top, kernels, scratch, out);

  if (params.forced >= 0) {
    out.token = params.forced;
    out.logprob = logits[static_cast<size_t>(out.token)] - log_sum;
    out.ok = true;
    return;
  }
  {
    const Edited edited(row, params.edits != nullptr ? params.edits->sparse : std::span<const Edit>());
    if (!edited.numbers()) return;
    const bool masked = params.edits != nullptr && !params.edits->bitmask.empty();
    pick(masked ? row.masked(params.edits->bitmask) : row, params, kernels, scratch, out);
  }
  if (out.token < 0) return;
  if (own) out.logprob = logits[static_cast<size_t>(out.token)] - log_sum;
  out.ok = true;
}

}  // namespace

void SampleScratch::reserve(int64_t n_logits) {
  const auto n = static_cast<size_t>(n_logits);
  if (edited.capacity() >= n && ranked.capacity() >= n) return;
  block_max.reserve(n / kSampleBlock + 1);
  for (std::vector<float>* of : {&values, &logits, &originals, &edited}) of->reserve(n);
  ids.reserve(n);
  mass.reserve(n);
  chunk_sums.reserve(n / kSampleBlock + 1);
  ranked.reserve(n);  // last: it stands for the others
}

SampleKernels plain_sample_kernels() { return {plain_block_max, plain_exp_row}; }

void sample_row(std::span<float> logits,
                const SampleParams& params,
                const SampleKernels& kernels,
                SampleScratch& scratch,
                Sampled& out) {
  out = Sampled{.top = std::move(out.top)};
  out.top.clear();
  try {
    sample(logits, params, kernels, scratch, out);
  } catch (const std::bad_alloc&) {
    out.token = kNoMemoryToken;
    out.ok = false;
  }
}

}  // namespace quire
