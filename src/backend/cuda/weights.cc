#include "backend/cuda/weights.h"

#include <cstring>
#include <string>

#include "backend/cuda/kernels/linear_float.cuh"
#include "backend/cuda/kernels/linear_q8_0.cuh"

namespace quire::cuda {
namespace {

constexpr int64_t kPanelOutputs = LinearFloat<float>::kOutputs, kPanelDepth = LinearFloat<float>::kDepth;

std::vector<std::byte> packed_q8_0(const HostWeight& weight) {
  const PackedMatrix form(weight.n_rows(), weight.n_cols());
  std::vector<std::byte> bytes(static_cast<size_t>(form.bytes));
  std::vector<std::byte> room;
  std::byte* scales = bytes.data() + form.scales_at;
  for (int64_t row = 0; row < form.n_out; ++row) {
    const std::byte* block = weight.rows(row, 1, room);
    for (int64_t g = 0; g < form.n_scale_groups; ++g, block += weight.format->bytes) {
      std::memcpy(bytes.data() + (row * form.n_scale_groups + g) * 32, block + 2, 32);
      std::memcpy(scales + (row * form.scale_pitch + g) * 2, block, 2);
    }
  }
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

bool is_q8_0(const WeightFormat& format) { return format.name == "q8_0"; }

}  // namespace

PackedMatrix::PackedMatrix(int64_t rows, int64_t columns)
    : n_out(rows),
      n_in(columns),
      n_scale_groups(columns / 32),
      scale_pitch(parts_of(n_scale_groups, LinearQ8_0::kScaleGroups) * LinearQ8_0::kScaleGroups),
      scales_at(n_out * n_in),
      bytes(scales_at + n_out * scale_pitch * 2) {}

PanelMatrix::PanelMatrix(const WeightFormat& format, int64_t rows, int64_t columns)
    : n_blocks(parts_of(columns, kPanelDepth)),
      bytes(parts_of(rows, kPanelOutputs) * n_blocks * kPanelDepth * kPanelOutputs * format.bytes) {}

Status check_weight(const HostWeight& weight) {
  const std::string_view format = weight.format->name;
  if (!is_q8_0(*weight.format) && format != "f32" && format != "f16") {
    return fail(Code::unsupported, weight.name +
                                       ": the cuda backend has kernels for q8_0, f16 and f32 weights so far, not for " +
                                       std::string(format));
  }
  if (!weight.order().empty()) {
    return fail(Code::unsupported,
                weight.name + ": the cuda backend has no kernels for columns in an order of their own");
  }
  return {};
}

int64_t packed_bytes(const WeightFormat& format, int64_t n_out, int64_t n_in) {
  return is_q8_0(format) ? PackedMatrix(n_out, n_in).bytes : PanelMatrix(format, n_out, n_in).bytes;
}

std::vector<std::byte> packed(const HostWeight& weight) {
  return is_q8_0(*weight.format) ? packed_q8_0(weight) : packed_floats(weight);
}

}  // namespace quire::cuda
