// Whether a device's tensor cores sum products of bf16 as the twin does (emulated/tensor_core.h): tiles of random
// operands by the kernel MmaTiles, each compared with the twin's, bit for bit. Where they differ, the text shows
// operands, and which other models the device's results fit, so that the twin can be corrected from it. On an emulated
// device the twin is compared with itself: that shows where operands lie in registers, and nothing of a tensor core.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/tensor_core.h"
#include "backend/cuda/kernels/list.cuh"
#include "backend/cuda/runtime.h"
#include "base/check.h"

namespace quire {

struct MmaCheck {
  int64_t n_tiles = 1'000'000;
  uint64_t seed = 1;
  int n_threads = 1;
  emulated::TensorCore core = emulated::kHopperCore;
  int64_t batch = 65536;  // tiles of a launch, 512 bytes each
};

struct MmaFindings {
  int64_t n_tiles = 0, n_equal = 0;
  emulated::TensorCore best;  // what fits the device's results best, of what was tried; `core` where all are equal
  std::string text;
};

namespace mma_check {

using emulated::TensorCore;

// How a float differs from the twin's. Of a tile it is the gravest of its floats'.
enum class Difference : uint8_t { none, sign_of_zero, bits_of_nan, value };
constexpr size_t kDifferences = 4, kKinds = cuda::kTileKinds;
constexpr std::array<const char*, kKinds> kKindNames = {
    "bell",    "near",       "wide",       "any exponent", "any bits",           "edge",      "cancelling",
    "beneath", "underflows", "half zeros", "mostly zeros", "zeros beside large", "overflows", "infinities"};

struct Tile {
  int64_t number = 0;
  std::array<std::array<uint16_t, 16>, 16> a;
  std::array<std::array<uint16_t, 16>, 8> b;  // columns
  std::array<std::array<uint32_t, 8>, 16> c, got;
  size_t kind() const { return static_cast<size_t>(number % cuda::kTileKinds); }
};

inline Tile tile_of(uint64_t seed, int64_t number, const cuda::Fragment* got) {
  Tile out;
  out.number = number;
  const cuda::TileDraw draw(seed, number);
  for (size_t r = 0; r < 16; ++r) {
    const int row = static_cast<int>(r);
    for (size_t k = 0; k < 16; ++k) out.a[r][k] = static_cast<uint16_t>(draw.a(row, static_cast<int>(k)) >> 16);
    for (size_t c = 0; c < 8; ++c) {
      out.c[r][c] = draw.c(row, static_cast<int>(c));
      out.got[r][c] = got[r % 8 * 4 + c / 2].words[r / 8 * 2 + c % 2];
    }
  }
  for (size_t c = 0; c < 8; ++c) {
    const int column = static_cast<int>(c);
    for (size_t k = 0; k < 16; ++k) out.b[c][k] = static_cast<uint16_t>(draw.b(column, static_cast<int>(k)) >> 16);
  }
  return out;
}

inline uint32_t twin_of(const TensorCore& core, const Tile& tile, size_t r, size_t c) {
  return emulated::sum_of_products(core, tile.a[r].data(), tile.b[c].data(), 16, tile.c[r][c]);
}

inline Difference difference(uint32_t x, uint32_t y) {
  const uint32_t a = x & 0x7fffffff, b = y & 0x7fffffff;
  if (x == y) return Difference::none;
  if (a == 0 && b == 0) return Difference::sign_of_zero;
  return a > 0x7f800000 && b > 0x7f800000 ? Difference::bits_of_nan : Difference::value;
}

// Of the tile's floats the first of the gravest difference.
struct Where {
  Difference what = Difference::none;
  size_t row = 0, column = 0;
};
inline Where compare(const TensorCore& core, const Tile& tile) {
  Where out;
  for (size_t r = 0; r < 16; ++r) {
    for (size_t c = 0; c < 8; ++c) {
      const Difference what = difference(tile.got[r][c], twin_of(core, tile, r, c));
      if (what > out.what) out = {what, r, c};
    }
  }
  return out;
}

// Whether each float of the tile is the model's, but for signs of zeros and bits of NaN.
inline bool fits(const TensorCore& core, const Tile& tile) {
  for (size_t r = 0; r < 16; ++r) {
    for (size_t c = 0; c < 8; ++c) {
      if (difference(tile.got[r][c], twin_of(core, tile, r, c)) == Difference::value) return false;
    }
  }
  return true;
}

struct Kind {
  std::array<int64_t, kDifferences> n{};                    // tiles, by their difference
  std::array<std::map<int64_t, Tile>, 2> some;              // the first that are equal, and that differ in a value
  std::array<std::map<int64_t, Tile>, kDifferences> first;  // one of each difference
};
using Kinds = std::array<Kind, kKinds>;
constexpr size_t kSome = 48;

inline void keep(std::map<int64_t, Tile>& tiles, size_t n, const Tile& tile) {
  if (tiles.size() < n || tile.number < tiles.rbegin()->first) tiles.emplace(tile.number, tile);
  if (tiles.size() > n) tiles.erase(std::prev(tiles.end()));
}

inline void add(Kinds& kinds, const Tile& tile, Difference what) {
  Kind& kind = kinds[tile.kind()];
  ++kind.n[static_cast<size_t>(what)];
  if (what != Difference::none) keep(kind.first[static_cast<size_t>(what)], 1, tile);
  if (what == Difference::none || what == Difference::value) keep(kind.some[what == Difference::value], kSome, tile);
}

inline void merge(Kinds& into, const Kinds& from) {
  for (size_t k = 0; k < kKinds; ++k) {
    for (size_t d = 0; d < kDifferences; ++d) {
      into[k].n[d] += from[k].n[d];
      for (const auto& [number, tile] : from[k].first[d]) keep(into[k].first[d], 1, tile);
    }
    for (size_t s = 0; s < 2; ++s) {
      for (const auto& [number, tile] : from[k].some[s]) keep(into[k].some[s], kSome, tile);
    }
  }
}

// Calls each(i), i < n, from so many threads, in runs of `run`.
template <class Each>
void spread(int n_threads, int64_t n, int64_t run, const Each& each) {
  std::atomic<int64_t> next = 0;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(n_threads));
  for (int t = 0; t < n_threads; ++t) {
    threads.emplace_back([&] {
      for (int64_t begin = next.fetch_add(run); begin < n; begin = next.fetch_add(run)) {
        each(begin, std::min(n, begin + run));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline Kinds compare_all(cuda::Runtime& runtime, const MmaCheck& check) {
  const int64_t batch = std::min(check.batch, check.n_tiles);
  const int64_t bytes = batch * 32 * int64_t{sizeof(cuda::Fragment)};
  std::byte* made = *runtime.allocate(bytes, cuda::Place::device);
  std::byte* got = *runtime.allocate(bytes, cuda::Place::pinned);
  Kinds kinds;
  std::mutex mutex;
  for (int64_t first = 0; first < check.n_tiles; first += batch) {
    const int64_t n = std::min(batch, check.n_tiles - first);
    const int n_blocks =
        static_cast<int>(std::min<int64_t>(1024, (n + cuda::MmaTiles::kWarps - 1) / cuda::MmaTiles::kWarps));
    const cuda::MmaTiles kernel{check.seed, first, n, reinterpret_cast<cuda::Fragment*>(made), n_blocks};
    runtime.launch(cuda::launch_of(kernel, {n_blocks}));
    runtime.download(got, made, n * 32 * int64_t{sizeof(cuda::Fragment)});
    runtime.wait();
    const auto* results = reinterpret_cast<const cuda::Fragment*>(got);
    spread(check.n_threads, n, 1024, [&](int64_t begin, int64_t end) {
      Kinds mine;
      for (int64_t t = begin; t < end; ++t) {
        const Tile tile = tile_of(check.seed, first + t, results + t * 32);
        add(mine, tile, compare(check.core, tile).what);
      }
      const std::scoped_lock lock(mutex);
      merge(kinds, mine);
    });
  }
  runtime.release(made);
  runtime.release(got);
  return kinds;
}

inline std::vector<TensorCore> models() {
  std::vector<TensorCore> out;
  for (int bits = 22; bits <= 30; ++bits) {
    for (const int n_together : {4, 8, 16}) {
      for (unsigned flags = 0; flags < 32 * 3; ++flags) {
        out.push_back({.fraction_bits = bits,
                       .n_together = n_together,
                       .zero = static_cast<emulated::ZeroExponent>(flags / 32),
                       .is_normalised = (flags & 1) != 0,
                       .is_floored = (flags & 2) != 0,
                       .is_rounded = (flags & 4) != 0,
                       .is_flushed = (flags & 8) != 0,
                       .is_saturated = (flags & 16) != 0});
      }
    }
  }
  return out;
}

// By kind, of how many of the tiles that were kept all values are a model's.
struct Fit {
  TensorCore core;
  std::array<int, kKinds> n{};
  int all = 0;
  size_t at = 0;  // in models()
};
inline Fit fit_of(const TensorCore& core, const Kinds& kinds) {
  Fit out{.core = core};
  for (size_t k = 0; k < kKinds; ++k) {
    for (const auto& tiles : kinds[k].some) {
      for (const auto& [number, tile] : tiles) out.n[k] += fits(core, tile) ? 1 : 0;
    }
    out.all += out.n[k];
  }
  return out;
}

// Best first; of those alike the one that stands first in models().
inline std::vector<Fit> ranked(const Kinds& kinds, int n_threads) {
  const std::vector<TensorCore> cores = models();
  std::vector<Fit> out(cores.size());
  spread(n_threads, std::ssize(cores), 1, [&](int64_t begin, int64_t) {
    const auto i = static_cast<size_t>(begin);
    out[i] = fit_of(cores[i], kinds);
    out[i].at = i;
  });
  std::ranges::sort(out, {}, [](const Fit& fit) { return std::pair(-fit.all, fit.at); });
  return out;
}

inline std::string hex(uint32_t x, int digits) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), " %0*" PRIx32, digits, x);
  return text.data();
}

inline std::string shown(const TensorCore& core, const Tile& tile) {
  const auto [what, r, c] = compare(core, tile);
  std::string out = "tile " + std::to_string(tile.number) + " (" + kKindNames[tile.kind()] + "), row " +
                    std::to_string(r) + ", column " + std::to_string(c) + "\n  a     ";
  for (const uint16_t x : tile.a[r]) out += hex(x, 4);
  out += "\n  b     ";
  for (const uint16_t x : tile.b[c]) out += hex(x, 4);
  return out + "\n  c     " + hex(tile.c[r][c], 8) + ", device" + hex(tile.got[r][c], 8) + ", twin" +
         hex(twin_of(core, tile, r, c), 8) + "\n";
}

inline std::string table(const Kinds& kinds) {
  std::string out = "tiles               all    equal  sign of 0  bits of NaN   values\n";
  for (size_t k = 0; k < kKinds; ++k) {
    const auto& n = kinds[k].n;
    std::array<char, 160> line;
    std::snprintf(line.data(), line.size(),
                  "%-18s %6" PRId64 " %8" PRId64 " %10" PRId64 " %12" PRId64 " %8" PRId64 "\n", kKindNames[k],
                  n[0] + n[1] + n[2] + n[3], n[0], n[1], n[2], n[3]);
    out += line.data();
  }
  return out;
}

inline std::string examples(const TensorCore& core, const Kinds& kinds) {
  constexpr std::array kNames = {"", "sign of a zero", "bits of a NaN", "value"};
  std::string out;
  for (size_t d = kDifferences - 1; d > 0; --d) {
    for (const Kind& kind : kinds) {
      for (const auto& [number, tile] : kind.first[d]) out += std::string(kNames[d]) + ": " + shown(core, tile);
    }
  }
  return out;
}

inline std::string compared(const std::vector<Fit>& fits, const Kinds& kinds) {
  std::array<size_t, kKinds> n{};
  size_t all = 0, differing = 0;
  for (size_t k = 0; k < kKinds; ++k) {
    all += n[k] = kinds[k].some[0].size() + kinds[k].some[1].size();
    differing += kinds[k].some[1].size();
  }
  std::string out = "models, by how many of " + std::to_string(all) + " tiles they fit, of which " +
                    std::to_string(differing) + " differ from the twin:\n";
  for (size_t i = 0; i < std::min<size_t>(12, fits.size()); ++i) {
    out += std::to_string(fits[i].all) + ": " + describe(fits[i].core) + "\n";
  }
  out += "what the first does not fit:";
  for (size_t k = 0; k < kKinds; ++k) {
    const auto missed = static_cast<int64_t>(n[k]) - fits[0].n[k];
    if (missed != 0) out += std::string(" ") + kKindNames[k] + " " + std::to_string(missed) + ";";
  }
  return out + "\n";
}

}  // namespace mma_check

// Aborts where there is no memory for two batches. n_tiles > 0.
inline MmaFindings check_mma(cuda::Runtime& runtime, const MmaCheck& check) {
  QR_CHECK(check.n_tiles > 0 && check.n_threads > 0);
  const mma_check::Kinds kinds = mma_check::compare_all(runtime, check);
  MmaFindings out{.n_tiles = check.n_tiles, .best = check.core, .text = {}};
  int64_t n_values = 0;
  for (const mma_check::Kind& kind : kinds) {
    out.n_equal += kind.n[0];
    n_values += kind.n[static_cast<size_t>(mma_check::Difference::value)];
  }
  out.text = "twin: " + describe(check.core) + "\nequal in every bit: " + std::to_string(out.n_equal) + " of " +
             std::to_string(out.n_tiles) + " tiles\n" + mma_check::table(kinds);
  if (out.n_equal == out.n_tiles) return out;
  out.text += mma_check::examples(check.core, kinds);
  if (n_values == 0) return out;
  const std::vector<mma_check::Fit> fits = mma_check::ranked(kinds, check.n_threads);
  out.text += mma_check::compared(fits, kinds);
  out.best = fits[0].core;
  return out;
}

}  // namespace quire
