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

class LinearWork {
 public:
  // prefetch_bytes: how far ahead weights are asked for.
  explicit LinearWork(int64_t prefetch_bytes) : prefetch_bytes_(prefetch_bytes) {}

  void clear() {
    parts_.clear();
    n_columns_ = 0;
  }

  // y [n, n_out] of w times x [n, n_in]; xq: x in the form that w's format wants.
  void add(const Linear& w, const LinearKernels& kernels, const Tensor& x, const QuantRows& xq, const Tensor& y) {
    const int64_t columns = w.w.dim(1) * kPanelRows;  // on a node
    for (int64_t first = 0; first < w.n_out; first += columns) {
      Part& part = parts_.emplace_back();
      part.node = static_cast<int>(first / columns);
      part.task = LinearTask{.panels = w.w.data + part.node * w.w.stride[0],
                             .panel_stride = w.w.stride[1],
                             .n_in = w.n_in,
                             .n_out = std::min(columns, w.n_out - first),
                             .x = w.format->rounded ? xq.rounded : x.ptr<float>(),
                             .x_stride = w.format->rounded ? xq.rounded_stride : x.stride[0],
                             .xq = xq,
                             .n = x.dim(0),
                             .y = y.ptr<float>() + first,
                             .y_stride = y.stride[0],
                             .bias = w.bias.data == nullptr ? nullptr : w.bias.ptr<float>() + first,
                             .prefetch_bytes = prefetch_bytes_};
      part.run = kernels.run;
      part.n_panels = (part.task.n_out + kPanelRows - 1) / kPanelRows;
      part.first_column = n_columns_ + first;
    }
    n_columns_ += w.n_out;
  }

  void run(WorkerPool& pool) {
    run(pool, [](int64_t, int64_t) {});
  }
  // Each task calls done(begin, end) when all rows have columns [begin, end), of the parts' outputs side by side.
  template <class Done>
  void run(WorkerPool& pool, Done&& done) {
    tasks_.clear();
    ends_.clear();
    for (int node = 0; node < pool.n_nodes(); ++node) {
      share_out(node, pool.n_threads_of(node));
      ends_.push_back(static_cast<int64_t>(tasks_.size()));
    }
    pool.run(ends_, false, [this, &done](int64_t task) {
      const Task& mine = tasks_[static_cast<size_t>(task)];
      const Part& part = parts_[mine.part];
      LinearTask some = part.task;
      some.begin = mine.begin;
      some.end = mine.end;
      part.run(some);
      done(part.first_column + some.begin * kPanelRows,
           part.first_column + std::min(some.n_out, some.end * kPanelRows));
    });
  }

 private:
  struct Part {  // a node's share of a weight
    LinearTask task;
    void (*run)(const LinearTask&) = nullptr;
    int64_t n_panels = 0, first_column = 0;
    int node = 0;
    int64_t bytes() const { return n_panels * task.panel_stride; }
  };
  struct Task {
    size_t part;
    int64_t begin, end;  // panels
  };

  // Guided self-scheduling (Polychronopoulos and Kuck, 1987): a task is its thread's half of an equal share of what is
  // left, so that few of them begin, each of which waits for memory, and all threads end together.
  void share_out(int node, int n_threads) {
    constexpr int64_t kLeastBytes = 64 << 10;
    int64_t left = 0;
    for (const Part& part : parts_) left += part.node == node ? part.bytes() : 0;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].node != node) continue;
      const int64_t stride = parts_[p].task.panel_stride;
      for (int64_t begin = 0; begin < parts_[p].n_panels;) {
        const int64_t bytes = std::max(kLeastBytes, left / (2 * n_threads));
        const int64_t n = std::min(parts_[p].n_panels - begin, std::max<int64_t>(2, bytes / stride / 2 * 2));
        tasks_.push_back({p, begin, begin + n});
        begin += n;
        left -= n * stride;
      }
    }
  }

  int64_t prefetch_bytes_;
  std::vector<Part> parts_;
  std::vector<Task> tasks_;    // a node's behind the other's
  std::vector<int64_t> ends_;  // of each node's tasks
  int64_t n_columns_ = 0;
};

}  // namespace quire
