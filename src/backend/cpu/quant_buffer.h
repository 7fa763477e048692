// Rows of activations quantised or rounded for products. The memory is kept from op to op, so that a steady state
// allocates nothing. Owner: the backend's caller; workers write rows and activation groups of their own.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/tables.h"
#include "quant/weight_format.h"
#include "tensor/arena.h"

namespace quire {

class QuantBuffer {
 public:
  explicit QuantBuffer(const IsaTable& isa)
      : has_tiles_(std::any_of(isa.linear.begin(), isa.linear.end(), [](const auto* k) { return k->most_tiled > 0; })),
        bf16_per_float_(isa.elementwise->bf16_per_float) {}

  // What products want of their input: itself, or these forms. only_tiles: whole tiles of quantised rows will be read
  // from nowhere else.
  struct Forms {
    bool itself = false, quantised = false, rounded = false, only_tiles = false;
    void add(const WeightFormat& format) {
      itself |= !format.integer && !format.rounded;
      quantised |= format.integer;
      rounded |= format.rounded;
    }
  };
  // Room for n_rows rows of n_in numbers; what was there before is lost.
  QuantRows rows(int64_t n_rows, int64_t n_in, const Forms& forms) {
    QuantRows out;
    if (forms.quantised) out = quantised(n_rows, n_in, forms.only_tiles);
    if (forms.rounded) {
      // Whole vectors, and rows at different places of a page.
      out.rounded_stride = Arena::row_stride((n_in + kPanelRows - 1) / kPanelRows * kPanelRows / bf16_per_float_);
      out.rounded_per_float = bf16_per_float_;
      const auto n = static_cast<size_t>(n_rows * out.rounded_stride);
      if (rounded_.size() < n) rounded_.resize(n);
      out.rounded = rounded_.data();
    }
    return out;
  }

 private:
  QuantRows quantised(int64_t n_rows, int64_t n_in, bool only_tiles) {
    const int64_t n_activation_groups = n_in / kPanelDepth;
    const auto n = static_cast<size_t>(n_rows * n_activation_groups);
    if (activations_.size() < n) activations_.resize(n);
    QuantRows out{.activations = activations_.data(), .n_activation_groups = n_activation_groups};
    if (has_tiles_ && n_rows >= kLeastTiled) {
      // One activation group more: tiles next to each other never begin at the same place of a page, where a few of the
      // first-level cache's lines would have to hold all of them.
      out.tile_stride = n_activation_groups + 1;
      const int64_t n_tiles = (n_rows + QuantTile::kRows - 1) / QuantTile::kRows;
      const auto n_all = static_cast<size_t>(n_tiles * out.tile_stride + QuantTile::kBehind);
      if (tiles_.size() < n_all) tiles_.resize(n_all);
      out.tiles = tiles_.data();
      if (only_tiles) out.only_tiles = n_rows / QuantTile::kRows * QuantTile::kRows;
    }
    return out;
  }

  // Below, products without tiles are faster (docs/backend-cpu.md).
  static constexpr int64_t kLeastTiled = 2 * QuantTile::kRows;

  const bool has_tiles_;
  const int64_t bf16_per_float_;
  std::vector<ActivationGroup> activations_;
  std::vector<float> rounded_;
  std::vector<QuantTile> tiles_;
};

}  // namespace quire
