#include "quant/convert.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "quant/encoding.h"

namespace quire {
namespace {

constexpr int64_t kRowsPerTask = 16;

struct RowError {
  double squared = 0, power = 0, largest = 0;
  int64_t bad = -1;  // the first column that is not finite, or not after decoding
};

// Scratch of one thread.
struct Rows {
  explicit Rows(int64_t n) : was(static_cast<size_t>(n)), is(static_cast<size_t>(n)) {}
  std::vector<float> was, is;
  std::vector<std::byte> room;
};

// What the columns' errors count, 1 on the average. A column that the text of the importances never used counts a
// little all the same: another text may use it. Empty: all the same.
std::vector<float> relative_importance(std::span<const float> importance) {
  constexpr float kLeast = 1e-3F;
  double sum = 0;
  for (const float v : importance) sum += static_cast<double>(v);
  const auto mean = static_cast<float>(sum / static_cast<double>(std::max<size_t>(importance.size(), 1)));
  std::vector<float> out;
  if (!(mean > 0) || !std::isfinite(mean)) return out;
  out.reserve(importance.size());
  for (const float v : importance) out.push_back(std::max(v / mean, kLeast));
  return out;
}

struct Task {
  const WeightFormat& from;
  std::span<const int32_t> order;  // of `from`'s columns
  const WeightFormat& to;
  Encoder encode;
  bool quick;
  std::vector<float> importance;
  bool from_f32;
};

// The column of the first number that is not finite; -1: there is none.
int64_t first_bad(const std::vector<float>& row) {
  uint32_t highest = 0;  // of all bits but the sign's: a loop that nothing ends is made of vectors
  for (const float v : row) highest = std::max(highest, std::bit_cast<uint32_t>(v) & 0x7fffffffU);
  if (highest < 0x7f800000U) return -1;
  return std::find_if(row.begin(), row.end(), [](float v) { return !std::isfinite(v); }) - row.begin();
}

// How far `is` lies from `was`. Four sums side by side, column i in that of i mod 4: each alone would wait for itself.
void measure(const Rows& rows, RowError& error) {
  RowError parts[4];
  const size_t n = rows.was.size();
  const auto add = [&](RowError& part, size_t i) {
    const double was = rows.was[i];
    const double lost = std::fabs(static_cast<double>(rows.is[i]) - was);
    part.squared += lost * lost;
    part.power += was * was;
    part.largest = part.largest > lost ? part.largest : lost;
  };
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t k = 0; k < 4; ++k) add(parts[k], i + k);
  }
  for (; i < n; ++i) add(parts[i % 4], i);
  for (const RowError& part : parts) {
    error.squared += part.squared;
    error.power += part.power;
    error.largest = std::max(error.largest, part.largest);
  }
}

RowError convert_row(const std::byte* stored, const Task& task, Rows& rows, std::byte* out) {
  const WeightFormat& from = task.from;
  const WeightFormat& to = task.to;
  const auto n = static_cast<int64_t>(rows.was.size());
  RowError error;
  if (task.from_f32) {
    std::memcpy(rows.was.data(), stored, rows.was.size() * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; i += from.block) from.decode(stored + i / from.block * from.bytes, rows.was.data() + i);
  }
  if (!task.order.empty()) {
    rows.is.swap(rows.was);
    for (size_t i = 0; i < rows.was.size(); ++i) rows.was[static_cast<size_t>(task.order[i])] = rows.is[i];
  }
  error.bad = first_bad(rows.was);
  if (error.bad >= 0) return error;
  for (int64_t i = 0; i < n; i += to.block) {
    std::byte* block = out + i / to.block * to.bytes;
    const float* importance = task.importance.empty() ? nullptr : task.importance.data() + i;
    task.encode(rows.was.data() + i, block, {importance, task.quick});
    to.decode(block, rows.is.data() + i);
  }
  measure(rows, error);
  if (!std::isfinite(error.squared)) error.bad = first_bad(rows.is);
  return error;
}

}  // namespace

namespace {

// It chooses the experts of a row, or how much of a shared unit it takes.
bool is_router(std::string_view name) { return name.find(".ffn_gate_inp") != std::string_view::npos; }

// It is of a time mix and none of its large products.
bool is_of_shares(std::string_view name) {
  const size_t at = name.find(".time_mix_");
  if (at == std::string_view::npos) return name.find(".channel_mix_lerp_") != std::string_view::npos;
  const std::string_view rest = name.substr(at + 10);
  for (const char* product : {"receptance.", "key.", "value.", "gate.", "output."}) {
    if (rest.starts_with(product)) return false;
  }
  return true;
}

}  // namespace

bool is_exact(std::string_view name) {
  constexpr std::string_view kPositions = "position_embd.weight";  // a row is added to the stream once
  return is_router(name) || is_of_shares(name) || name == kPositions;
}

bool is_small(const HostWeight& weight) {
  constexpr int64_t kLeastColumns = 16;  // under it rows are taps of a convolution, or single numbers
  const bool is_matrix = weight.shape.size() >= 2 && weight.n_cols() >= kLeastColumns;
  return !is_matrix || is_exact(weight.name) || weight.name.ends_with(".bias");
}

const WeightFormat* fitting_format(const HostWeight& weight, const WeightFormat& wanted) {
  const int64_t n = weight.n_cols();
  if (is_small(weight)) return weight.format;
  if (n % wanted.block == 0) return &wanted;
  const double bits = 8.0 * wanted.bytes / wanted.block;
  const char* name = bits < 4.5 ? "iq4_nl" : bits < 5 ? "q5_0" : bits < 6 ? "q5_1" : "q8_0";
  const WeightFormat* next = find_weight_format(std::string_view(name));
  if (n % next->block != 0) next = find_weight_format(std::string_view("f16"));
  return next->row_bytes(n) < weight.format->row_bytes(n) ? next : weight.format;
}

Result<ConversionError> convert_weight(const HostWeight& weight,
                                       const WeightFormat& to,
                                       const Conversion& how,
                                       std::byte* out) {
  const int64_t n_rows = weight.n_rows();
  const int64_t out_bytes = to.row_bytes(weight.n_cols());
  std::vector<RowError> errors(static_cast<size_t>(n_rows));
  const Task task{.from = *weight.format,
                  .order = weight.order(),
                  .to = to,
                  .encode = find_encoder(to, how.quick),
                  .quick = how.quick,
                  .importance = relative_importance(how.importance),
                  .from_f32 = weight.format == find_weight_format(std::string_view("f32"))};
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    Rows rows(weight.n_cols());
    for (int64_t at = next.fetch_add(kRowsPerTask); at < n_rows; at = next.fetch_add(kRowsPerTask)) {
      for (int64_t r = at; r < std::min(n_rows, at + kRowsPerTask); ++r) {
        errors[static_cast<size_t>(r)] = convert_row(weight.rows(r, 1, rows.room), task, rows, out + r * out_bytes);
      }
    }
  };
  const int64_t n_tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < std::min<int64_t>(how.n_threads, n_tasks); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();

  RowError total;
  for (size_t r = 0; r < errors.size(); ++r) {
    if (errors[r].bad >= 0) {
      return fail(Code::invalid, "tensor \"" + weight.name + "\": row " + std::to_string(r) + ", column " +
                                     std::to_string(errors[r].bad) + ": not a finite number, or beyond what " +
                                     std::string(to.name) + " can hold");
    }
    total.squared += errors[r].squared;
    total.power += errors[r].power;
    total.largest = std::max(total.largest, errors[r].largest);
  }
  return ConversionError{total.power > 0 ? std::sqrt(total.squared / total.power) : 0.0, total.largest};
}

}  // namespace quire
