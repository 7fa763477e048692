#include "backend/cuda/weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "backend/cuda/kernels/linear_float.cuh"

namespace quire::cuda {
namespace {

constexpr int64_t kPanelOutputs = LinearFloat<float>::kOutputs, kPanelDepth = LinearFloat<float>::kDepth;

std::vector<std::byte> packed_integers(const HostWeight& weight, const IntegerFormat& format) {
  const StagedMatrix form(format, weight.n_rows(), weight.n_cols());
  std::vector<std::byte> bytes(static_cast<size_t>(form.bytes));
  const int64_t n_panels = parts_of(weight.n_rows(), kPackedOutputs);
  std::atomic<int64_t> next{0};
  const auto pack_panels = [&] {
    std::vector<std::byte> room;
    for (int64_t panel = next++; panel < n_panels; panel = next++) {
      const int64_t first = panel * kPackedOutputs, end = std::min(first + kPackedOutputs, weight.n_rows());
      for (int64_t row = first; row < end; ++row) {
        format.pack(weight.rows(row, 1, room), weight.n_cols(), static_cast<int>(row - first),
                    bytes.data() + panel * form.panel_bytes);
      }
    }
  };
  const auto n_threads = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(n_threads, n_panels / 4); ++i) others.emplace_back(pack_panels);
  pack_panels();
  for (std::thread& other : others) other.join();
  return bytes;
}

std::vector<std::byte> packed_floats(const HostWeight& weight) {
  const PanelMatrix form(*weight.format, weight.n_rows(), weight.n_cols());
  const auto size = static_cast<size_t>(weight.format->bytes);
  std::vector<std::byte> bytes(static_cast<size_t>(form.bytes));
  std::vector<std::byte> room;
  for (int64_t row = 0; row < weight.n_rows(); ++row) {
    const std::byte* from = weight.rows(row, 1, room);
    const int64_t first = row / kPanelOutputs * form.n_blocks * kPanelDepth * kPanelOutputs + row % kPanelOutputs;
    for (int64_t k = 0; k < weight.n_cols(); ++k, from += size) {
      std::memcpy(bytes.data() + static_cast<size_t>(first + k * kPanelOutputs) * size, from, size);
    }
  }
  return bytes;
}

}  // namespace

StagedMatrix::StagedMatrix(const IntegerFormat& format, int64_t rows, int64_t columns)
    : n_stages(parts_of(columns, kPackedDepth)),
      panel_bytes(n_stages * format.stage_bytes),
      bytes(parts_of(rows, kPackedOutputs) * panel_bytes) {}

PanelMatrix::PanelMatrix(const WeightFormat& format, int64_t rows, int64_t columns)
    : n_blocks(parts_of(columns, kPanelDepth)),
      bytes(parts_of(rows, kPanelOutputs) * n_blocks * kPanelDepth * kPanelOutputs * format.bytes) {}

Status check_weight(const HostWeight& weight) {
  const std::string_view format = weight.format->name;
  if (find_integer_format(*weight.format) == nullptr && format != "f32" && format != "f16") {
    return fail(Code::unsupported,
                weight.name + ": the cuda backend has kernels for f32, f16 and integer weights so far, not for " +
                    std::string(format));
  }
  if (!weight.order().empty()) {
    return fail(Code::unsupported,
                weight.name + ": the cuda backend has no kernels for columns in an order of their own");
  }
  return {};
}

int64_t packed_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in) {
  const IntegerFormat* integer = find_integer_format(format);
  return integer != nullptr ? StagedMatrix(*integer, n_out, n_in).bytes : PanelMatrix(format, n_out, n_in).bytes;
}

std::vector<std::byte> packed(const HostWeight& weight) {
  const IntegerFormat* integer = find_integer_format(*weight.format);
  return integer != nullptr ? packed_integers(weight, *integer) : packed_floats(weight);
}

}  // namespace quire::cuda
