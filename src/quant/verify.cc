#include "quant/verify.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace quire {
namespace {

constexpr int64_t kRowsPerTask = 64;

// Scratch of one thread.
struct Row {
  std::vector<float> numbers;
  std::vector<std::byte> room;
};

// Adds what is bad in a row, later than all that `bad` has.
void check_row(const HostWeight& weight, int64_t row, Row& scratch, BadNumbers& bad) {
  const WeightFormat& format = *weight.format;
  const int64_t n = weight.n_cols();
  const std::byte* stored = weight.rows(row, 1, scratch.room);
  std::vector<float>& numbers = scratch.numbers;
  for (int64_t i = 0; i < n; i += format.block)
    format.decode(stored + i / format.block * format.bytes, &numbers[static_cast<size_t>(i)]);
  for (int64_t i = 0; i < n; ++i) {
    const float value = numbers[static_cast<size_t>(i)];
    if (std::isfinite(value)) continue;
    if (bad.count++ == 0) {
      bad.row = row;
      bad.column = i;
      bad.value = value;
    }
  }
}

}  // namespace

BadNumbers find_bad_numbers(const HostWeight& weight, int n_threads) {
  const int64_t n_rows = weight.n_rows();
  const int64_t n_tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
  std::vector<BadNumbers> found(static_cast<size_t>(n_tasks));
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    Row scratch{std::vector<float>(static_cast<size_t>(weight.n_cols())), {}};
    for (int64_t task = next++; task < n_tasks; task = next++) {
      const int64_t end = std::min(n_rows, (task + 1) * kRowsPerTask);
      for (int64_t row = task * kRowsPerTask; row < end; ++row) {
        check_row(weight, row, scratch, found[static_cast<size_t>(task)]);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < std::min<int64_t>(n_threads, n_tasks); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  BadNumbers out;
  for (const BadNumbers& bad : found) {
    const int64_t count = out.count + bad.count;
    if (out.count == 0) out = bad;
    out.count = count;
  }
  return out;
}

}  // namespace quire
