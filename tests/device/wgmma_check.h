// Whether a device's wgmma sums products of bf16 as its mma does, and both as the twin does (emulated/tensor_core.h):
// products of random numbers of every kind, by the kernels that products in tensor arithmetic go by. On an emulated
// device the twin is compared with itself: that shows where operands lie, and nothing of a tensor core.
#pragma once
#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "backend/cuda/wgmma_probe.h"
#include "tests/device/mma_check.h"

namespace quire {

struct WgmmaCheck {
  int64_t n_products = 100;  // of 256 rows × 128 outputs, 28 sums of 16 products each
  uint64_t seed = 1;
  int n_threads = 1;
};

struct WgmmaFindings {
  int64_t n = 0;                        // results
  int64_t n_as_mma = 0, n_as_twin = 0;  // of them those of both tiles of wgmma that are so
  int64_t n_mma_as_twin = 0;
  std::string text;
};

namespace wgmma_check {

inline uint32_t twin_of(const cuda::WgmmaProbe& probe, int row, int output) {
  constexpr int kDepth = cuda::WgmmaProbe::kDepth;
  std::array<uint16_t, kDepth> a, b;
  for (int k = 0; k < kDepth; ++k) {
    a[static_cast<size_t>(k)] = probe.weight(output, k);
    b[static_cast<size_t>(k)] = probe.row(row, k);
  }
  uint32_t sum = 0;
  for (size_t k = 0; k < kDepth; k += 16) {
    sum = emulated::sum_of_products(emulated::kHopperCore, a.data() + k, b.data() + k, 16, sum);
  }
  return sum;
}

struct Kind {
  int64_t n = 0, as_mma = 0, as_twin = 0, mma_as_twin = 0;
};
using Kinds = std::array<Kind, mma_check::kKinds>;  // by outputs'

// Adds a product's results to `kinds`; the first that differs goes to `text` where that has none.
inline void add(
    Kinds& kinds, std::string& text, const cuda::WgmmaProbe& probe, const cuda::WgmmaProbe::Sums& sums, int n_threads) {
  constexpr int kOutputs = cuda::WgmmaProbe::kOutputs;
  std::mutex mutex;
  mma_check::spread(n_threads, std::ssize(sums.mma), 1024, [&](int64_t begin, int64_t end) {
    Kinds mine;
    std::string said;
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      const int row = static_cast<int>(i) / kOutputs, output = static_cast<int>(i) % kOutputs;
      const uint32_t twin = twin_of(probe, row, output), mma = std::bit_cast<uint32_t>(sums.mma[at]);
      const uint32_t some = std::bit_cast<uint32_t>(sums.some[at]), many = std::bit_cast<uint32_t>(sums.many[at]);
      Kind& kind = mine[static_cast<size_t>(output % cuda::kTileKinds)];
      ++kind.n;
      kind.as_mma += some == mma && many == mma ? 1 : 0;
      kind.as_twin += some == twin && many == twin ? 1 : 0;
      kind.mma_as_twin += mma == twin ? 1 : 0;
      if (!said.empty() || (some == mma && many == mma && mma == twin)) continue;
      said = "seed " + std::to_string(probe.seed) + ", row " + std::to_string(row) + " (" +
             mma_check::kKindNames[static_cast<size_t>(row + kOutputs) % mma_check::kKinds] + "), output " +
             std::to_string(output) + " (" + mma_check::kKindNames[static_cast<size_t>(output) % mma_check::kKinds] +
             "): mma" + mma_check::hex(mma, 8) + ", wgmma of 128 rows" + mma_check::hex(some, 8) + ", of 256" +
             mma_check::hex(many, 8) + ", twin" + mma_check::hex(twin, 8) + "\n";
    }
    const std::scoped_lock lock(mutex);
    if (text.empty()) text = said;
    for (size_t k = 0; k < kinds.size(); ++k) {
      kinds[k].n += mine[k].n;
      kinds[k].as_mma += mine[k].as_mma;
      kinds[k].as_twin += mine[k].as_twin;
      kinds[k].mma_as_twin += mine[k].mma_as_twin;
    }
  });
}

}  // namespace wgmma_check

// REQUIRES a device of compute capability 9.0. An error: it refused; nothing is found then.
inline Result<WgmmaFindings> check_wgmma(cuda::Runtime& runtime, const WgmmaCheck& check) {
  QR_CHECK(check.n_products > 0 && check.n_threads > 0);
  wgmma_check::Kinds kinds;
  WgmmaFindings out;
  std::string first;
  for (int64_t p = 0; p < check.n_products; ++p) {
    // Single sums first, then chains of all.
    const cuda::WgmmaProbe probe{.seed = check.seed + static_cast<uint64_t>(p), .every = p % 2 == 0 ? 28 : 1};
    QR_TRY(const cuda::WgmmaProbe::Sums sums, probe.sums(runtime));
    wgmma_check::add(kinds, first, probe, sums, check.n_threads);
  }
  std::string table = "outputs                all wgmma = mma wgmma = twin   mma = twin\n";
  for (size_t k = 0; k < kinds.size(); ++k) {
    const wgmma_check::Kind& kind = kinds[k];
    std::array<char, 160> line;
    std::snprintf(line.data(), line.size(), "%-15s %10" PRId64 " %11" PRId64 " %12" PRId64 " %12" PRId64 "\n",
                  mma_check::kKindNames[k], kind.n, kind.as_mma, kind.as_twin, kind.mma_as_twin);
    table += line.data();
    out.n += kind.n;
    out.n_as_mma += kind.as_mma;
    out.n_as_twin += kind.as_twin;
    out.n_mma_as_twin += kind.mma_as_twin;
  }
  out.text = "wgmma has the bits of mma in " + std::to_string(out.n_as_mma) + " of " + std::to_string(out.n) +
             " results, those of the twin in " + std::to_string(out.n_as_twin) + "\n" + table;
  if (!first.empty()) out.text += "differs: " + first;
  return out;
}

}  // namespace quire
