#include "backend/cuda/wgmma_probe.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/tensor_launches.h"
#include "tensor/buffer.h"

namespace quire::cuda {
namespace {

constexpr int kRows = WgmmaProbe::kRows, kOutputs = WgmmaProbe::kOutputs, kDepth = WgmmaProbe::kDepth;
constexpr int kBlocks = kDepth / TensorPanels::kDepth;
static_assert(kRows == LinearWgmmaMany::kRows && kOutputs == LinearWgmmaMany::kOutputs);
static_assert(kBlocks > LinearWgmmaSome::kStages && kBlocks > LinearWgmmaMany::kStages);

// The tile that number k of a line is drawn from.
TileDraw draw_of(uint64_t seed, int line, int k) {
  return {seed, (int64_t{line} * kDepth + k) / 16 * kTileKinds + line % kTileKinds};
}

// Memory of the device until it goes.
Result<Buffer> room(Runtime& runtime, int64_t bytes, Place place) {
  QR_TRY(std::byte * data, runtime.allocate(bytes, place));
  return Buffer::of({data, [&runtime](std::byte* p) { runtime.release(p); }}, bytes);
}

bool have_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

}  // namespace

uint16_t WgmmaProbe::weight(int output, int k) const {
  if ((k / 16 + output) % every != 0) return 0;
  return static_cast<uint16_t>(draw_of(seed, output, k).a(output % 16, k % 16) >> 16);
}

uint16_t WgmmaProbe::row(int row, int k) const {
  return static_cast<uint16_t>(draw_of(seed, kOutputs + row, k).b(row % 8, k % 16) >> 16);
}

Result<WgmmaProbe::Sums> WgmmaProbe::sums(Runtime& runtime) const {
  constexpr int64_t kSums = int64_t{kRows} * kOutputs;
  std::vector<uint16_t> numbers(size_t{kOutputs + kRows} * kDepth);  // panels of weights, then of rows
  uint16_t* const of_rows = numbers.data() + size_t{kOutputs} * kDepth;
  for (int k = 0; k < kDepth; ++k) {
    for (int o = 0; o < kOutputs; ++o) numbers[static_cast<size_t>(TensorPanels::at(o, k, kBlocks))] = weight(o, k);
    for (int r = 0; r < kRows; ++r) of_rows[TensorPanels::at(r, k, kBlocks)] = row(r, k);
  }
  QR_TRY(const Buffer w, room(runtime, std::ssize(numbers) * 2, Place::device));
  QR_TRY(const Buffer y, room(runtime, 3 * kSums * 4, Place::shared));
  runtime.upload(w.data(), numbers.data(), std::ssize(numbers) * 2);
  auto* made = reinterpret_cast<float*>(y.data());
  const auto* panels = reinterpret_cast<const uint16_t*>(w.data());
  const auto product = [&](int i) {
    return TensorProduct{.w = panels,
                         .bias = nullptr,
                         .x = panels + (of_rows - numbers.data()),
                         .y = {made + i * kSums, kOutputs},
                         .n = kRows,
                         .n_out = kOutputs,
                         .n_blocks = kBlocks,
                         .batch = 0};
  };
  launch_tensor<LinearTensorFew>(runtime, product(0));
  launch_tensor<LinearWgmmaSome>(runtime, product(1));
  launch_tensor<LinearWgmmaMany>(runtime, product(2));
  runtime.wait();
  QR_TRY_VOID(runtime.take_error());
  const auto part = [&](int i) { return std::vector<float>(made + i * kSums, made + (i + 1) * kSums); };
  return Sums{part(0), part(1), part(2)};
}

std::string why_no_wgmma(Runtime& runtime) {
  const DeviceSize size = runtime.size();
  if (size.major != LinearWgmmaMany::kMajor) return "the device has none of compute capability 9.0";
  if (size.shared_bytes < std::max(LinearWgmmaMany::kSharedBytes, LinearWgmmaSome::kSharedBytes)) {
    return "a block has " + std::to_string(size.shared_bytes) + " bytes of shared memory";
  }
  const auto sums = WgmmaProbe().sums(runtime);
  if (!sums) return "its sums could not be compared: " + sums.error().message;
  const bool are_equal = have_same_bits(sums->mma, sums->some) && have_same_bits(sums->mma, sums->many);
  return are_equal ? "" : "its sums differ from those of mma";
}

}  // namespace quire::cuda
