// What adapters add to a product: A·x of the rows that have one, in a fork of its own in front of the product's, then
// B·(A·x) by the product's tasks, each on the columns that it has just written. Kept from op to op, so that a steady
// state allocates nothing. Owner: the backend's caller; workers only read it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/held_numbers.h"
#include "backend/cpu/kernels/low_rank_tables.h"
#include "backend/cpu/linear_work.h"
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
  explicit LowRankWork(const LowRankKernels& kernels) : kernels_(kernels) {}

  // Of `x`, the product's input, into memory of its own. Nothing where no row has an adapter. kernels_of(a): those of
  // A.
  template <class KernelsOf>
  void multiply(
      const AddedProducts& added, const Tensor& x, const KernelsOf& kernels_of, LinearWork& work, WorkerPool& pool) {
    find(added);
    if (entries_.empty()) return;
    work.clear();
    for (const Entry& entry : entries_) {
      const int64_t n = entry.end_row - entry.first_row;
      const Linear& a = entry.of->a;
      const Tensor h = Tensor::dense(hidden_.data() + entry.at, DType::f32, {n, entry.stride});
      work.add(a, kernels_of(a), {x.rows(entry.first_row, n), QuantRows{}}, h.columns(0, a.n_out));
    }
    work.run(pool);
  }
  bool empty() const { return entries_.empty(); }
  // Asks memory for what add_to(y) will read. Any thread.
  void ask_for(const SomeColumns& y) const {
    for (const Entry& entry : entries_) {
      if (meets(entry, y)) ask_for(y, entry);
    }
  }
  // y += B·(A·x), and before that the part's scaling of y where it has one (ops/low_rank.h). Any thread.
  void add_to(const SomeColumns& y) const {
    for (const Entry& entry : entries_) {
      if (meets(entry, y)) add_to(y, entry);
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

  static bool meets(const Entry& entry, const SomeColumns& y) {
    return std::max(y.begin, entry.column) < std::min(y.end, entry.column + entry.of->n_out) &&
           std::max(y.first_row, entry.first_row) < std::min(y.end_row, entry.end_row);
  }

  // REQUIRES meets(entry, y).
  static void ask_for(const SomeColumns& y, const Entry& entry) {
    constexpr int kSecondLevel = 2;
    const LowRank& of = *entry.of;
    const int64_t panel_bytes = of.b.dim(0) * kPanelRows * dtype_bytes(of.b.dtype);
    const int64_t first = std::max<int64_t>(0, y.begin - entry.column) / kPanelRows;
    const int64_t end = (std::min(y.end - entry.column, of.n_out) + kPanelRows - 1) / kPanelRows;
    const std::byte* from = of.b.data + first * panel_bytes;
    for (int64_t i = 0; i < (end - first) * panel_bytes; i += 64) __builtin_prefetch(from + i, 0, kSecondLevel);
    asm volatile("" : : "r"(from));  // or g++ takes it for a function without effects and drops its calls
  }

  // REQUIRES meets(entry, y).
  void add_to(const SomeColumns& y, const Entry& entry) const {
    const int64_t begin = std::max(y.begin, entry.column), first_row = std::max(y.first_row, entry.first_row);
    kernels_.add[static_cast<size_t>(held_as(entry.of->b.dtype))](
        {.b = entry.of->b.data,
         .rank = entry.of->a.n_out,
         .n_of_output = entry.of->b.dim(0),
         .begin = begin - entry.column,
         .end = std::min(y.end - entry.column, entry.of->n_out),
         .h = hidden_.data() + entry.at + (first_row - entry.first_row) * entry.stride,
         .h_stride = entry.stride,
         .y = y.y + (first_row - y.first_row) * y.stride + (begin - y.begin),
         .y_stride = y.stride,
         .n = std::min(y.end_row, entry.end_row) - first_row});
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
        }
        column += part.n_out;
      }
    }
    if (hidden_.size() < static_cast<size_t>(used)) hidden_.resize(static_cast<size_t>(used));
  }

  const LowRankKernels& kernels_;
  std::vector<Entry> entries_;
  std::vector<float> hidden_;
};

}  // namespace quire
