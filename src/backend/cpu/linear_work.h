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
  void clear() {
    parts_.clear();
    n_columns_ = n_bytes_ = 0;
  }

  // y [n, n_out] of w times x [n, n_in]; xq: x in the form that w's format wants.
  void add(const Linear& w, const LinearKernels& kernels, const Tensor& x, const QuantRows& xq, const Tensor& y) {
    Part& part = parts_.emplace_back();
    part.task = LinearTask{.panels = w.w.data,
                           .panel_stride = w.w.stride[0],
                           .n_in = w.n_in,
                           .n_out = w.n_out,
                           .x = w.format->rounded ? xq.rounded : x.ptr<float>(),
                           .x_stride = w.format->rounded ? xq.rounded_stride : x.stride[0],
                           .xq = xq,
                           .n = x.dim(0),
                           .y = y.ptr<float>(),
                           .y_stride = y.stride[0],
                           .bias = w.bias.data == nullptr ? nullptr : w.bias.ptr<float>()};
    part.run = kernels.run;
    part.n_panels = w.w.dim(0);
    part.first_column = n_columns_;
    n_columns_ += w.n_out;
    n_bytes_ += part.n_panels * w.w.stride[0];
  }

  void run(WorkerPool& pool) {
    run(pool, [](int64_t, int64_t) {});
  }
  // Each task calls done(begin, end) when all rows have columns [begin, end), of the parts' outputs side by side.
  template <class Done>
  void run(WorkerPool& pool, Done&& done) {
    share_out(pool.n_threads());
    pool.run(static_cast<int64_t>(tasks_.size()), [this, &done](int64_t task) {
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
  struct Part {
    LinearTask task;
    void (*run)(const LinearTask&) = nullptr;
    int64_t n_panels = 0, first_column = 0;
  };
  struct Task {
    size_t part;
    int64_t begin, end;  // panels
  };

  // Guided self-scheduling (Polychronopoulos and Kuck, 1987): a task is its thread's half of an equal share of what is
  // left, so that few of them begin, each of which waits for memory, and all threads end together.
  void share_out(int n_threads) {
    constexpr int64_t kLeastBytes = 64 << 10;
    tasks_.clear();
    int64_t left = n_bytes_;
    for (size_t p = 0; p < parts_.size(); ++p) {
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

  std::vector<Part> parts_;
  std::vector<Task> tasks_;
  int64_t n_columns_ = 0, n_bytes_ = 0;
};

}  // namespace quire
