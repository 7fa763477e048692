#include "backend/cuda/wgmma_probe.h"

#include <cstring>
#include <vector>

#include "backend/cuda/tensor_launches.h"
#include "tensor/buffer.h"

namespace quire::cuda {
namespace {

// Both rings go round more than once, and every lane of a block has numbers of its own.
constexpr int kRows = LinearWgmmaMany::kRows, kOutputs = LinearWgmmaMany::kOutputs;
constexpr int kBlocks = LinearWgmmaSome::kStages + 1, kDepth = kBlocks * TensorPanels::kDepth;
static_assert(LinearWgmmaSome::kStages >= LinearWgmmaMany::kStages);
constexpr uint64_t kSeed = 1;

// The tile that number k of a line is drawn from: kinds alternate, so each kind meets each other.
TileDraw draw_of(int line, int k) {
  return {kSeed, (int64_t{line} * kDepth + k) / 16 * kTileKinds + line % kTileKinds};
}

std::vector<uint16_t> weights() {
  std::vector<uint16_t> out(size_t{kOutputs} * kDepth);
  for (int o = 0; o < kOutputs; ++o) {
    for (int k = 0; k < kDepth; ++k) {
      if ((k / 16 + o) % 8 != 0) continue;  // some sums of every lane say enough
      out[static_cast<size_t>(TensorPanels::at(o, k, kBlocks))] =
          static_cast<uint16_t>(draw_of(o, k).a(o % 16, k % 16) >> 16);
    }
  }
  return out;
}

std::vector<float> rows() {
  std::vector<float> out;
  for (int r = 0; r < kRows; ++r) {
    for (int k = 0; k < kDepth; ++k) out.push_back(dev::as_float(draw_of(kOutputs + r, k).b(r % 8, k % 16)));
  }
  return out;
}

// Memory of the device until it goes.
Result<Buffer> room(Runtime& runtime, int64_t bytes, Place place) {
  QR_TRY(std::byte * data, runtime.allocate(bytes, place));
  return Buffer::of({data, [&runtime](std::byte* p) { runtime.release(p); }}, bytes);
}

// Whether all three have the same bits.
Result<bool> are_equal(Runtime& runtime) {
  constexpr int64_t kFloats = int64_t{kRows} * kOutputs;
  const std::vector<uint16_t> of_w = weights();
  const std::vector<float> of_x = rows();
  QR_TRY(const Buffer w, room(runtime, std::ssize(of_w) * 2, Place::device));
  QR_TRY(const Buffer x, room(runtime, std::ssize(of_x) * 4, Place::shared));
  QR_TRY(const Buffer rounded, room(runtime, std::ssize(of_x) * 2, Place::device));
  QR_TRY(const Buffer y, room(runtime, 3 * kFloats * 4, Place::shared));
  std::memcpy(x.data(), of_x.data(), of_x.size() * 4);
  runtime.upload(w.data(), of_w.data(), std::ssize(of_w) * 2);
  run_each(runtime,
           RoundRows{reinterpret_cast<uint32_t*>(rounded.data()),
                     {reinterpret_cast<const float*>(x.data()), kDepth},
                     kDepth,
                     kBlocks},
           kRows, kDepth / 2);
  auto* sums = reinterpret_cast<float*>(y.data());
  const auto product = [&](int i) {
    return TensorProduct{.w = reinterpret_cast<const uint16_t*>(w.data()),
                         .bias = nullptr,
                         .x = reinterpret_cast<const uint16_t*>(rounded.data()),
                         .y = {sums + i * kFloats, kOutputs},
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
  return std::memcmp(sums, sums + kFloats, kFloats * 4) == 0 && std::memcmp(sums, sums + 2 * kFloats, kFloats * 4) == 0;
}

}  // namespace

std::string why_no_wgmma(Runtime& runtime) {
  const DeviceSize size = runtime.size();
  if (size.major != LinearWgmmaMany::kMajor) return "the device has none of compute capability 9.0";
  if (size.shared_bytes < LinearWgmmaMany::kSharedBytes || size.shared_bytes < LinearWgmmaSome::kSharedBytes) {
    return "a block has " + std::to_string(size.shared_bytes) + " bytes of shared memory";
  }
  const Result<bool> equal = are_equal(runtime);
  if (!equal) return "its sums could not be compared: " + equal.error().message;
  return *equal ? "" : "its sums differ from those of mma";
}

}  // namespace quire::cuda
