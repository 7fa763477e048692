// Rows of activations quantised for products. The memory is kept from op to op, so that a steady state allocates
// nothing. Owner: the backend's caller; workers write rows and groups of their own.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/tables.h"
#include "quant/weight_format.h"

namespace quire {

class QuantBuffer {
 public:
  explicit QuantBuffer(bool has_tiles) : has_tiles_(has_tiles) {}

  // Room for n_rows rows of n_in numbers; what was there before is lost. only_tiles: nobody will read whole tiles of
  // rows from anywhere else.
  QuantRows rows(int64_t n_rows, int64_t n_in, bool only_tiles = false) {
    const int64_t n_groups = n_in / kPanelDepth;
    const auto n = static_cast<size_t>(n_rows * n_groups);
    if (scales_.size() < n) {
      quants_.resize(n * kPanelDepth);
      scales_.resize(n);
      sums_.resize(n);
      half_sums_.resize(2 * n);
      scaled_sums_.resize(n);
    }
    QuantRows out{.q = quants_.data(),
                  .scale = scales_.data(),
                  .sum = sums_.data(),
                  .half_sum = half_sums_.data(),
                  .scaled_sum = scaled_sums_.data(),
                  .n_groups = n_groups};
    if (has_tiles_ && n_rows >= kLeastTiled) {
      // One group more: tiles next to each other never begin at the same place of a page, where a few of the
      // first-level cache's lines would have to hold all of them.
      out.tile_stride = n_groups + 1;
      const int64_t n_tiles = (n_rows + QuantTile::kRows - 1) / QuantTile::kRows;
      const auto n_all = static_cast<size_t>(n_tiles * out.tile_stride + QuantTile::kBehind);
      if (tiles_.size() < n_all) tiles_.resize(n_all);
      out.tiles = tiles_.data();
      if (only_tiles) out.only_tiles = n_rows / QuantTile::kRows * QuantTile::kRows;
    }
    return out;
  }

 private:
  // Below, products without tiles are faster: a step of 16 sequences 175 against 157 tok/s, of 24 208 against 158.
  static constexpr int64_t kLeastTiled = 2 * QuantTile::kRows;

  const bool has_tiles_;
  std::vector<int8_t> quants_;
  std::vector<float> scales_;
  std::vector<int32_t> sums_, half_sums_;
  std::vector<float> scaled_sums_;
  std::vector<QuantTile> tiles_;
};

}  // namespace quire
