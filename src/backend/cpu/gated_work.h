// Pairs of products, gates and ups, that run in one fork: a task multiplies the same columns of both, some at a time,
// and hands them on while they are in its cache; they are nowhere else. Kept from op to op, so that a steady state
// allocates nothing. Owner: the backend's caller.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/linear_work.h"

namespace quire {

// Columns [begin, begin + n_columns) of rows [first_row, first_row + n_rows) of a pair; finish() may overwrite them.
struct GatedUnit {
  int64_t pair, begin, n_columns, first_row, n_rows;
  float* first_gate;
  float* first_up;
  int64_t stride;
  float* gate(int64_t i) const { return first_gate + i * stride; }  // of row first_row + i
  float* up(int64_t i) const { return first_up + i * stride; }
};

class GatedWork {
 public:
  explicit GatedWork(int64_t prefetch_bytes) : prefetch_bytes_(prefetch_bytes) {}

  void clear() {
    parts_.clear();
    n_pairs_ = n_rows_ = 0;
  }

  // gate and up, [n_ff, n_in] both, times rows: pair number 0, 1, ….
  void add(const Linear& gate,
           const LinearKernels& gate_kernels,
           const Linear& up,
           const LinearKernels& up_kernels,
           const ProductRows& rows) {
    size_t next = parts_.size();
    for_each_node(gate, gate_kernels, rows, prefetch_bytes_, [&](const Product& product) {
      parts_.push_back(
          {n_pairs_, {product, {}}, product.node, product.n_panels(), product.task.panel_stride, product.task.n});
    });
    for_each_node(up, up_kernels, rows, prefetch_bytes_, [&](const Product& product) {
      parts_[next].both[1] = product;
      parts_[next++].panel_bytes += product.task.panel_stride;
    });
    ++n_pairs_;
    n_rows_ += rows.x.dim(0);
  }

  // finish(unit), on any thread, for units whose first column is a multiple of kPanelDepth and that are whole
  // activation groups but for a pair's last columns.
  template <class Finish>
  void run(WorkerPool& pool, Finish&& finish) {
    run_units(pool, INT64_MAX, [](const Columns&) {}, finish);
  }
  // Columns [begin, end) of rows [first_row, end_row) of a pair.
  struct Columns {
    int64_t begin, end, first_row, end_row;
  };
  // Likewise, and before a unit soon(columns): what that asks memory for comes while they are multiplied. Units are few
  // panels.
  template <class Ask, class Finish>
  void run(WorkerPool& pool, Ask&& soon, Finish&& finish) {
    run_units(pool, kFewPanels, soon, finish);
  }

 private:
  // Of a unit, few enough that they stay in the second-level cache, but an activation group of columns at least.
  static constexpr int64_t kUnitFloats = 128 << 10, kLeastPanels = kPanelDepth / kPanelRows, kFewPanels = 16;

  template <class Ask, class Finish>
  void run_units(WorkerPool& pool, int64_t most_panels, Ask&& soon, Finish&& finish) {
    tasks_.share_out(parts_, pool);
    // Enough however the rows are spread over pairs: what experts need differs from step to step.
    const int64_t room = kUnitFloats + n_rows_ * (2 * kLeastPanels + 1) * kPanelRows;
    const auto wanted = static_cast<size_t>(room * pool.n_threads());
    if (local_.size() < wanted) local_.resize(wanted);
    pool.run(tasks_.ends, false, [&](int64_t task, int thread) {
      const PanelTasks::Task& mine = tasks_.tasks[static_cast<size_t>(task)];
      const Part& part = parts_[mine.part];
      const int64_t step = std::min(most_panels, part.unit_panels());
      for (int64_t panel = mine.begin; panel < mine.end; panel += step) {
        const int64_t end = std::min(mine.end, panel + step);
        const int64_t first_column = part.both[0].first_column;
        soon(Columns{first_column + panel * kPanelRows,
                     first_column + std::min(part.both[0].task.n_out, end * kPanelRows), mine.first_row, mine.end_row});
        run_unit(part, {mine.part, panel, end, mine.first_row, mine.end_row}, end == mine.end,
                 local_.data() + room * thread, finish);
      }
    });
  }

  struct Part {
    int64_t pair;
    Product both[2];
    int node;
    int64_t n_panels, panel_bytes, n_rows;  // bytes: of both

    // For few rows more than a task has, whose weights are then read in longer runs.
    int64_t unit_panels() const {
      const int64_t fit = kUnitFloats / (2 * n_rows * kPanelRows);
      return std::max(kLeastPanels, fit / kLeastPanels * kLeastPanels);
    }
    int64_t unit_columns() const { return std::min(unit_panels(), n_panels) * kPanelRows; }
    int64_t stride() const { return 2 * unit_columns() + kPanelRows; }  // rows at different places of a page
  };

  template <class Finish>
  void run_unit(const Part& part, const PanelTasks::Task& at, bool is_last, float* local, Finish&& finish) {
    float* const to[2] = {local, local + part.unit_columns()};
    const int64_t stride = part.stride();
    for (int i = 0; i < 2; ++i) {
      const LinearTask& task = part.both[i].task;
      LinearTask some = task.rows(at.first_row, at.end_row).columns(at.begin, at.end, to[i], stride);
      const LinearTask& next = part.both[1 - i].task;
      if (i == 0) some.after = next.panels + at.begin * next.panel_stride;
      if (i == 1 && !is_last) some.after = next.panels + at.end * next.panel_stride;
      part.both[i].run(some);
    }
    const int64_t begin = at.begin * kPanelRows;
    finish(GatedUnit{.pair = part.pair,
                     .begin = part.both[0].first_column + begin,
                     .n_columns = std::min(part.both[0].task.n_out, at.end * kPanelRows) - begin,
                     .first_row = at.first_row,
                     .n_rows = at.end_row - at.first_row,
                     .first_gate = to[0],
                     .first_up = to[1],
                     .stride = stride});
  }

  int64_t prefetch_bytes_;
  std::vector<Part> parts_;
  PanelTasks tasks_;
  std::vector<float> local_;  // a unit of each thread's
  int64_t n_pairs_ = 0, n_rows_ = 0;
};

}  // namespace quire
