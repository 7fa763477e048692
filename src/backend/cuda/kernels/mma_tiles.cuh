// Tiles of random operands through one mma_bf16 each, so that a device can be compared with its twin
// (tests/device/mma_check.h). Operands are drawn from counters, by the same lines on the host: tile t has 16 × 16 of A,
// by rows, 16 × 8 of B, by columns, 16 × 8 of C, by rows; each has its counter in this order.
// Grid: any; a warp makes a tile at a time. tile % kTileKinds says how its operands are spread.
#pragma once
#include "backend/cuda/kernels/packed.cuh"

namespace quire::cuda {

constexpr int kTileKinds = 14, kTileA = 0, kTileB = 256, kTileC = 384, kTileNumbers = 512;

QR_DEVICE uint64_t tile_bits(uint64_t seed, int64_t tile, int i) {
  uint64_t x = seed + (static_cast<uint64_t>(tile) * kTileNumbers + static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

// Stored exponents of A, B or C: `from` and so many more; of 256 numbers so many are zeros, of either sign.
struct TileSpread {
  int from, n, zeros;
};
struct TileSpreads {
  TileSpread a, b, c;
};
QR_DEVICE TileSpreads tile_spreads(int kind) {
  switch (kind) {
    case 1: return {{120, 8, 0}, {120, 8, 0}, {120, 12, 0}};
    case 2: return {{87, 81, 0}, {87, 81, 0}, {87, 81, 0}};
    case 3: return {{0, 255, 0}, {0, 255, 0}, {0, 255, 0}};
    case 4: return {{0, 256, 0}, {0, 256, 0}, {0, 256, 0}};
    case 5: return {{109, 14, 0}, {127, 1, 0}, {96, 32, 0}};
    case 6: return {{107, 40, 0}, {107, 40, 0}, {60, 60, 0}};
    case 7: return {{0, 3, 0}, {207, 40, 0}, {75, 50, 0}};
    case 8: return {{50, 28, 0}, {30, 30, 0}, {0, 4, 128}};
    case 9: return {{100, 50, 128}, {100, 50, 128}, {100, 50, 128}};
    case 10: return {{100, 50, 240}, {100, 50, 240}, {100, 50, 192}};
    case 11: return {{0, 12, 128}, {0, 255, 0}, {0, 60, 128}};
    case 12: return {{180, 6, 0}, {190, 7, 0}, {245, 10, 0}};
    default: return {{112, 30, 16}, {112, 30, 16}, {112, 30, 16}};
  }
}

// About the bell of a normal distribution: sums of four even numbers.
QR_DEVICE uint32_t tile_bell(uint64_t bits) {
  int sum = -2 * 65536;
  for (int i = 0; i < 4; ++i) sum += static_cast<int>(bits >> (16 * i) & 0xffff);
  return sum == 0 ? 0 : dev::as_bits(dev::whole(sum)) - (15U << 23);
}

// Draws the numbers of a tile, as bits of floats; of A and B the upper half is the bf16.
struct TileDraw {
  uint64_t seed;
  int64_t tile;
  int kind;
  TileSpreads spreads;

  QR_DEVICE TileDraw(uint64_t of_seed, int64_t of_tile)
      : seed(of_seed), tile(of_tile), kind(static_cast<int>(of_tile % kTileKinds)), spreads(tile_spreads(kind)) {}

  QR_DEVICE uint32_t a(int row, int k) const {
    const int i = kTileA + row * 16 + k;
    uint32_t x = number(spreads.a, tile_bits(seed, tile, is_second(k) ? i - 1 : i));
    if (is_second(k)) x ^= 1U << 31;
    // Others lie at the end of what counts beside it.
    return kind == 5 && (tile_bits(seed, tile, i) >> 48 & 3) == 0 ? (x & 0x807fffffU) | 127U << 23 : x;
  }
  QR_DEVICE uint32_t b(int column, int k) const {
    const int i = kTileB + column * 16 + k;
    const uint32_t x = number(spreads.b, tile_bits(seed, tile, is_second(k) ? i - 1 : i));
    return is_second(k) && (tile_bits(seed, tile, i) & 3) == 0 ? x ^ 0x10000U : x;
  }
  QR_DEVICE uint32_t c(int row, int column) const {
    return number(spreads.c, tile_bits(seed, tile, kTileC + row * 8 + column));
  }

 private:
  QR_DEVICE bool is_second(int k) const { return kind == 6 && k % 2 == 1; }  // of two that cancel, or nearly

  QR_DEVICE uint32_t number(TileSpread spread, uint64_t bits) const {
    if (kind == 0) return tile_bell(bits);
    const uint32_t sign = static_cast<uint32_t>(bits >> 63) << 31;
    if (static_cast<int>(bits >> 55 & 0xff) < spread.zeros) return sign;
    if (kind == 13 && (bits >> 24 & 0x7f) == 0) return sign | 0x7f800000U | ((bits >> 31 & 3) == 0 ? 0x10000U : 0);
    const auto above = static_cast<uint32_t>(bits >> 32 & 0xffff) * static_cast<uint32_t>(spread.n) >> 16;
    return sign | (static_cast<uint32_t>(spread.from) + above) << 23 | static_cast<uint32_t>(bits & 0x7fffff);
  }
};

struct MmaTiles {
  static constexpr int kThreads = 128, kSharedBytes = 0, kWarps = kThreads / 32, kMostFold = 0;
  uint64_t seed;
  int64_t first, n;  // tiles first …, n of them
  Fragment* out;     // [n][lane]: bits of the lane's four floats, rows lane / 4 and + 8, columns lane % 4 · 2 and + 1
  int n_blocks;

  QR_DEVICE void operator()() const {
    const int lane = dev::thread() % 32, row = lane / 4, column = lane % 4 * 2;
    for (int64_t t = int64_t{dev::block_x()} * kWarps + dev::thread() / 32; t < n; t += int64_t{n_blocks} * kWarps) {
      const TileDraw draw(seed, first + t);
      uint32_t a[4], b[2];
      float d[4];
      for (int i = 0; i < 4; ++i) {
        const int at = row + i % 2 * 8, k = column + i / 2 * 8;
        a[i] = draw.a(at, k) >> 16 | (draw.a(at, k + 1) & 0xffff0000U);
      }
      for (int i = 0; i < 2; ++i) {
        const int k = column + i * 8;
        b[i] = draw.b(row, k) >> 16 | (draw.b(row, k + 1) & 0xffff0000U);
      }
      for (int i = 0; i < 4; ++i) d[i] = dev::as_float(draw.c(row + i / 2 * 8, column + i % 2));
      dev::mma_bf16(d, a, b);
      Fragment result;
      for (int i = 0; i < 4; ++i) result.words[i] = dev::as_bits(d[i]);
      dev::store(out + t * 32 + lane, result);
    }
  }
};

}  // namespace quire::cuda
