#include "backend/cuda/weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "backend/cuda/float_formats.h"
#include "backend/cuda/kernels/tensor_panels.cuh"
#include "base/check.h"

namespace quire::cuda {
namespace {

// pack(row's bytes, row) of every row, those of a panel on one thread.
template <class Pack>
void pack_rows(const HostWeight& weight, int64_t rows_of_panel, const Pack& pack) {
  const int64_t n_panels = parts_of(weight.n_rows(), rows_of_panel);
  std::atomic<int64_t> next{0};
  const auto pack_panels = [&] {
    std::vector<std::byte> room;
    for (int64_t panel = next++; panel < n_panels; panel = next++) {
      const int64_t first = panel * rows_of_panel, end = std::min(first + rows_of_panel, weight.n_rows());
      for (int64_t row = first; row < end; ++row) pack(weight.rows(row, 1, room), row);
    }
  };
  const auto n_threads = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(n_threads, n_panels / 4); ++i) others.emplace_back(pack_panels);
  pack_panels();
  for (std::thread& other : others) other.join();
}

std::vector<std::byte> packed_integers(const HostWeight& weight, const IntegerFormat& format) {
  const StagedMatrix form(format, weight.n_rows(), weight.n_cols());
  std::vector<std::byte> bytes(static_cast<size_t>(form.bytes));
  pack_rows(weight, kPackedOutputs, [&](const std::byte* from, int64_t row) {
    format.pack(from, weight.n_cols(), static_cast<int>(row % kPackedOutputs),
                bytes.data() + row / kPackedOutputs * form.panel_bytes);
  });
  return bytes;
}

// Numbers of a row, blocks of the file's, to where output `out` of a panel has them.
template <class W>
void pack_row(const std::byte* row, const WeightFormat& format, int64_t n_in, int64_t out, std::byte* panel) {
  using Panels = FloatPanels<W>;
  constexpr size_t kSize = sizeof(typename Panels::Number);
  for (int64_t k = 0; k < n_in; ++k) {
    const std::byte* block = row + k / format.block * format.bytes;
    std::byte* stage = panel + k / kFloatDepth * Panels::kStageBytes;
    if constexpr (W::kIsScaled) {
      std::memcpy(stage + Panels::kScalesAt + out * 4, block, 4);
      block += 4;
    }
    std::memcpy(stage + static_cast<size_t>(k % kFloatDepth * kFloatOutputs + out) * kSize,
                block + static_cast<size_t>(k % format.block) * kSize, kSize);
  }
}

std::vector<std::byte> packed_for_tensor(const HostWeight& weight) {
  const TensorMatrix form(weight.n_rows(), weight.n_cols());
  std::vector<std::byte> bytes(static_cast<size_t>(form.bytes));
  pack_rows(weight, TensorPanels::kLines, [&](const std::byte* from, int64_t row) {
    for (int64_t k = 0; k < weight.n_cols(); k += TensorPanels::kPiece) {
      const int64_t n = std::min<int64_t>(TensorPanels::kPiece, weight.n_cols() - k);
      std::memcpy(bytes.data() + TensorPanels::at(row, k, form.n_blocks) * 2, from + k * 2, static_cast<size_t>(n * 2));
    }
  });
  return bytes;
}

std::vector<std::byte> packed_floats(const HostWeight& weight) {
  const PanelMatrix form(*weight.format, weight.n_rows(), weight.n_cols());
  std::vector<std::byte> bytes(static_cast<size_t>(form.bytes));
  const auto pack = [&]<class W>(W) {
    pack_rows(weight, kFloatOutputs, [&](const std::byte* from, int64_t row) {
      std::byte* panel = bytes.data() + row / kFloatOutputs * form.n_blocks * form.stage_bytes;
      pack_row<W>(from, *weight.format, weight.n_cols(), row % kFloatOutputs, panel);
    });
  };
  QR_CHECK(with_float_format(weight.format->name, pack));  // check_weight
  return bytes;
}

}  // namespace

StagedMatrix::StagedMatrix(const IntegerFormat& format, int64_t rows, int64_t columns)
    : n_stages(parts_of(columns, kPackedDepth)),
      panel_bytes(n_stages * format.stage_bytes),
      bytes(parts_of(rows, kPackedOutputs) * panel_bytes) {}

static int64_t stage_bytes_of(const WeightFormat& format) {
  int64_t bytes = int64_t{kFloatDepth} * kFloatOutputs * format.bytes / format.block;  // of one that is refused
  with_float_format(format.name, [&]<class W>(W) { bytes = FloatPanels<W>::kStageBytes; });
  return bytes;
}

PanelMatrix::PanelMatrix(const WeightFormat& format, int64_t rows, int64_t columns)
    : n_blocks(parts_of(columns, kFloatDepth)),
      stage_bytes(stage_bytes_of(format)),
      bytes(parts_of(rows, kFloatOutputs) * n_blocks * stage_bytes) {}

TensorMatrix::TensorMatrix(int64_t rows, int64_t columns)
    : n_blocks(parts_of(columns, TensorPanels::kDepth)),
      bytes(parts_of(rows, TensorPanels::kLines) * n_blocks * TensorPanels::kStageBytes) {}

Status check_weight(const HostWeight& weight) {
  const std::string_view format = weight.format->name;
  const bool is_of_floats = with_float_format(format, [](auto) {});
  if (find_integer_format(*weight.format) == nullptr && !is_of_floats) {
    return fail(Code::unsupported,
                weight.name + ": the cuda backend has no kernels for " + std::string(format) + " weights so far");
  }
  return {};
}

int64_t packed_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in) {
  const IntegerFormat* integer = find_integer_format(format);
  if (integer != nullptr) return StagedMatrix(*integer, n_out, n_in).bytes;
  const int64_t bytes = PanelMatrix(format, n_out, n_in).bytes;
  return format.name == "bf16" ? std::max(bytes, TensorMatrix(n_out, n_in).bytes) : bytes;
}

bool is_for_tensor(CudaArithmetic arithmetic, const WeightFormat& format) {
  return arithmetic == CudaArithmetic::tensor && format.name == "bf16";
}

std::vector<std::byte> packed(const HostWeight& weight, CudaArithmetic arithmetic) {
  const IntegerFormat* integer = find_integer_format(*weight.format);
  if (is_for_tensor(arithmetic, *weight.format)) return packed_for_tensor(weight);
  return integer != nullptr ? packed_integers(weight, *integer) : packed_floats(weight);
}

}  // namespace quire::cuda
