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
    n_tasks_ = n_columns_ = 0;
  }

  // y [n, n_out] of w times x [n, n_in]; xq: x quantised, for an integer format.
  void add(const Linear& w, const LinearKernels& kernels, const Tensor& x, const QuantRows& xq, const Tensor& y) {
    Part& part = parts_.emplace_back();
    part.task = LinearTask{.panels = w.w.data,
                           .panel_stride = w.w.stride[0],
                           .n_in = w.n_in,
                           .n_out = w.n_out,
                           .x = x.ptr<float>(),
                           .x_stride = x.stride[0],
                           .xq = xq,
                           .n = x.dim(0),
                           .y = y.ptr<float>(),
                           .y_stride = y.stride[0],
                           .bias = w.bias.data == nullptr ? nullptr : w.bias.ptr<float>()};
    part.run = kernels.run;
    part.n_panels = w.w.dim(0);
    part.per_task = std::max<int64_t>(2, kTaskBytes / w.w.stride[0] / 2 * 2);
    part.first_task = n_tasks_;
    part.first_column = n_columns_;
    n_columns_ += w.n_out;
    n_tasks_ += (part.n_panels + part.per_task - 1) / part.per_task;
  }

  void run(WorkerPool& pool) const {
    run(pool, [](int64_t, int64_t) {});
  }
  // Each task calls done(begin, end) when all rows have columns [begin, end), of the parts' outputs side by side.
  template <class Done>
  void run(WorkerPool& pool, Done&& done) const {
    pool.run(n_tasks_, [this, &done](int64_t task) {
      const auto after = std::upper_bound(parts_.begin(), parts_.end(), task,
                                          [](int64_t t, const Part& part) { return t < part.first_task; });
      const Part& part = *(after - 1);
      LinearTask mine = part.task;
      mine.begin = (task - part.first_task) * part.per_task;
      mine.end = std::min(part.n_panels, mine.begin + part.per_task);
      part.run(mine);
      done(part.first_column + mine.begin * kPanelRows,
           part.first_column + std::min(mine.n_out, mine.end * kPanelRows));
    });
  }

 private:
  // A task is a run of panels of about this many bytes: long enough for the prefetcher, short enough to share evenly.
  static constexpr int64_t kTaskBytes = 128 << 10;

  struct Part {
    LinearTask task;
    void (*run)(const LinearTask&) = nullptr;
    int64_t n_panels = 0, per_task = 0, first_task = 0, first_column = 0;
  };
  std::vector<Part> parts_;
  int64_t n_tasks_ = 0, n_columns_ = 0;
};

}  // namespace quire
