// What adapters add to a product: A·x of the rows that have one, in a fork of its own in front of the product's, then
// B·(A·x) by the product's tasks, each on the columns that it has just written. Kept from op to op, so that a steady
// state allocates nothing. Owner: the backend's caller; workers only read it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/linear_work.h"
#include "ops/low_rank.h"
#include "ops/ops.h"

namespace quire {

// Columns [begin, end) of rows [first_row, end_row) of a product; y: where row first_row has column `begin`.
struct SomeColumns {
  int64_t begin, end, first_row, end_row;
  float* y;
  int64_t stride;
};

class LowRankWork {
 public:
  // Of `x`, the product's input, into memory of its own. Nothing where no row has an adapter.
  void multiply(
      const AddedProducts& added, const Tensor& x, const LinearKernels& f32, LinearWork& work, WorkerPool& pool) {
    find(added);
    if (entries_.empty()) return;
    work.clear();
    for (const Entry& entry : entries_) {
      const int64_t n = entry.end_row - entry.first_row;
      const Tensor h = Tensor::dense(hidden_.data() + entry.at, DType::f32, {n, entry.stride});
      work.add(entry.of->a, f32, {x.rows(entry.first_row, n), QuantRows{}}, h.columns(0, entry.of->a.n_out));
    }
    work.run(pool);
  }
  bool empty() const { return entries_.empty(); }
  // y += B·(A·x), and before that the part's scaling of y where it has one (ops/low_rank.h). Any thread.
  void add_to(const SomeColumns& y, const ElementwiseKernels& row) const {
    for (const Entry& entry : entries_) {
      const int64_t begin = std::max(y.begin, entry.column);
      const int64_t end = std::min(y.end, entry.column + entry.of->n_out);
      const int64_t end_row = std::min(y.end_row, entry.end_row);
      for (int64_t r = std::max(y.first_row, entry.first_row); r < end_row && begin < end; ++r) {
        float* to = y.y + (r - y.first_row) * y.stride;
        const float* h = hidden_.data() + entry.at + (r - entry.first_row) * entry.stride;
        for (int64_t c = begin; c < end; c += kRun) {
          add_run(to + (c - y.begin), std::min(kRun, end - c), entry, {c - entry.column, h}, row);
        }
      }
    }
  }

 private:
  struct Entry {
    const LowRank* of;
    int64_t first_row, end_row;
    int64_t column;  // of the product, where its own begin
    int64_t at;      // of hidden_: where its rows of A·x begin
    int64_t stride;  // between them
  };
  struct Run {
    int64_t column;  // of the entry
    const float* h;
  };
  static constexpr int64_t kRun = 512;  // columns whose sums are nowhere but on the stack

  void add_run(float* y, int64_t n, const Entry& entry, const Run& run, const ElementwiseKernels& row) const {
    float sums[kRun];
    row.mix_row(sums, n,
                {.rows = entry.of->b.ptr<float>() + run.column,
                 .stride = entry.of->b.stride[0],
                 .places = numbers_.data(),
                 .shares = run.h,
                 .n = static_cast<int>(entry.of->a.n_out)});
    if (scales_product(*entry.of)) {
      const float* factors = factors_of(*entry.of) + run.column;
      const float* summands = summands_of(*entry.of) + run.column;
      for (int64_t i = 0; i < n; ++i) y[i] = y[i] * factors[i] + summands[i];
    }
    row.add_row(y, sums, n);
  }

  void find(const AddedProducts& added) {
    entries_.clear();
    int64_t used = 0;
    for (const AdapterRows& some : added.rows) {
      int64_t column = 0;
      for (const LowRank& part : added.of(some)) {
        if (!part.empty() && some.begin < some.end) {
          const int64_t stride = (part.a.n_out + kPanelRows - 1) / kPanelRows * kPanelRows;
          entries_.push_back({&part, some.begin, some.end, column, used, stride});
          used += stride * (some.end - some.begin);
          for (auto j = std::ssize(numbers_); j < part.a.n_out; ++j) numbers_.push_back(j);
        }
        column += part.n_out;
      }
    }
    if (hidden_.size() < static_cast<size_t>(used)) hidden_.resize(static_cast<size_t>(used));
  }

  std::vector<Entry> entries_;
  std::vector<float> hidden_;
  std::vector<int64_t> numbers_;  // 0, 1, … of B's rows
};

}  // namespace quire
