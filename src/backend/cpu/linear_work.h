// Products that run in one fork: parts are added, then run() shares their panels among the workers. Kept from op to op,
// so that a steady state allocates nothing. Owner: the backend's caller.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/tables.h"
#include "backend/cpu/pool.h"
#include "ops/ops.h"

namespace quire {

// Rows that products multiply, [n, n_in]: themselves, and in the forms that formats want.
struct ProductRows {
  const Tensor& x;
  const QuantRows& xq;
};

// A node's share of a weight's product with rows of x; y is the caller's to set.
struct Product {
  LinearTask task;
  void (*run)(const LinearTask&) = nullptr;
  int node = 0;
  int64_t first_column = 0;  // of the weight's
  int64_t n_panels() const { return (task.n_out + kPanelRows - 1) / kPanelRows; }
};

// take(product) for each node's share of w times rows; prefetch_bytes: how far ahead weights are asked for.
template <class Take>
void for_each_node(
    const Linear& w, const LinearKernels& kernels, const ProductRows& rows, int64_t prefetch_bytes, Take&& take) {
  const int64_t columns = w.w.dim(1) * kPanelRows;  // on a node
  for (int64_t first = 0; first < w.n_out; first += columns) {
    const auto node = static_cast<int>(first / columns);
    take(Product{.task = {.panels = w.w.data + node * w.w.stride[0],
                          .panel_stride = w.w.stride[1],
                          .n_in = w.n_in,
                          .n_out = std::min(columns, w.n_out - first),
                          .x = w.format->rounded ? rows.xq.rounded : rows.x.ptr<float>(),
                          .x_stride = w.format->rounded ? rows.xq.rounded_stride : rows.x.stride[0],
                          .xq = rows.xq,
                          .n = rows.x.dim(0),
                          .bias = w.bias.data == nullptr ? nullptr : w.bias.ptr<float>() + first,
                          .prefetch_bytes = prefetch_bytes},
                 .run = kernels.run,
                 .node = node,
                 .first_column = first});
  }
}

// Tasks of one fork, each some panels of a part times its rows or some of them, a node's behind the other's.
struct PanelTasks {
  struct Task {
    size_t part;
    int64_t begin, end;  // panels
    int64_t first_row, end_row;
  };
  std::vector<Task> tasks;
  std::vector<int64_t> ends;  // of each node's

  // Part: node, n_panels, panel_bytes, n_rows.
  template <class Part>
  void share_out(const std::vector<Part>& parts, const WorkerPool& pool) {
    tasks.clear();
    ends.clear();
    for (int node = 0; node < pool.n_nodes(); ++node) {
      share_out(parts, node, pool.n_threads_of(node));
      ends.push_back(static_cast<int64_t>(tasks.size()));
    }
  }

 private:
  // Guided self-scheduling (Polychronopoulos and Kuck, 1987): a task is its thread's half of an equal share of what is
  // left, so that few of them begin, each of which waits for memory, and all threads end together. The least ones are
  // cut once more, by rows, where those are many.
  template <class Part>
  void share_out(const std::vector<Part>& parts, int node, int n_threads) {
    constexpr int64_t kLeastBytes = 64 << 10, kLeastPanels = 2, kCutRows = 128;
    int64_t left = 0;
    for (const Part& part : parts) left += part.node == node ? part.n_panels * part.panel_bytes : 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].node != node) continue;
      for (int64_t begin = 0; begin < parts[p].n_panels;) {
        const int64_t bytes = std::max(kLeastBytes, left / (2 * n_threads));
        const int64_t fit = bytes / parts[p].panel_bytes / kLeastPanels * kLeastPanels;
        const int64_t n = std::min(parts[p].n_panels - begin, std::max(kLeastPanels, fit));
        const int64_t rows = parts[p].n_rows;
        const int64_t cut = n <= kLeastPanels && rows >= 2 * kCutRows ? kCutRows : rows;
        for (int64_t row = 0; row < rows; row += cut) {
          tasks.push_back({p, begin, begin + n, row, std::min(rows, row + cut)});
        }
        begin += n;
        left -= n * parts[p].panel_bytes;
      }
    }
  }
};

class LinearWork {
 public:
  explicit LinearWork(int64_t prefetch_bytes) : prefetch_bytes_(prefetch_bytes) {}

  void clear() {
    parts_.clear();
    n_columns_ = 0;
  }

  // y [n, n_out] of w times rows.
  void add(const Linear& w, const LinearKernels& kernels, const ProductRows& rows, const Tensor& y) {
    for_each_node(w, kernels, rows, prefetch_bytes_, [&](Product product) {
      product.task.y = y.ptr<float>() + product.first_column;
      product.task.y_stride = y.stride[0];
      product.first_column += n_columns_;
      parts_.push_back({product, product.node, product.n_panels(), product.task.panel_stride, product.task.n});
    });
    n_columns_ += w.n_out;
  }

  void run(WorkerPool& pool) {
    run(pool, [](const Done&) {});
  }
  // Columns [begin, end), of the parts' outputs side by side, of rows [first_row, end_row).
  struct Done {
    int64_t begin, end, first_row, end_row;
  };
  // Each task calls done() with what it has written.
  template <class Tell>
  void run(WorkerPool& pool, Tell&& done) {
    run_pieces(pool, INT64_MAX, [](const Done&) {}, done);
  }
  // Likewise for some panels after the others, and before them soon(): done() finds them in its cache, and what soon()
  // asks memory for comes while they are multiplied.
  template <class Ask, class Tell>
  void run(WorkerPool& pool, Ask&& soon, Tell&& done) {
    run_pieces(pool, kPieceBytes, soon, done);
  }

 private:
  struct Part {
    Product product;
    int node;
    int64_t n_panels, panel_bytes, n_rows;
  };
  static constexpr int64_t kPieceBytes = 512 << 10, kLeastPanels = 2;

  template <class Ask, class Tell>
  void run_pieces(WorkerPool& pool, int64_t piece_bytes, Ask&& soon, Tell&& done) {
    tasks_.share_out(parts_, pool);
    pool.run(tasks_.ends, false, [this, piece_bytes, &soon, &done](int64_t task) {
      const PanelTasks::Task& mine = tasks_.tasks[static_cast<size_t>(task)];
      const Part& part = parts_[mine.part];
      const Product& product = part.product;
      LinearTask some = product.task.rows(mine.first_row, mine.end_row);
      const int64_t step = std::max(kLeastPanels, piece_bytes / part.panel_bytes / kLeastPanels * kLeastPanels);
      for (int64_t begin = mine.begin; begin < mine.end; begin = some.end) {
        some.begin = begin;
        some.end = mine.end - begin > step ? begin + step : mine.end;
        some.after = some.end < mine.end ? some.panels + some.end * some.panel_stride : nullptr;
        const Done piece{product.first_column + some.begin * kPanelRows,
                         product.first_column + std::min(some.n_out, some.end * kPanelRows), mine.first_row,
                         mine.end_row};
        soon(piece);
        product.run(some);
        done(piece);
      }
    });
  }

  int64_t prefetch_bytes_;
  std::vector<Part> parts_;
  PanelTasks tasks_;
  int64_t n_columns_ = 0;
};

}  // namespace quire
