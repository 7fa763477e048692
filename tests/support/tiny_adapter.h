// Adapters of tiny models.
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "model/model.h"
#include "ops/ops.h"

namespace quire {

// Of every product of a layer, with numbers by the seed, which is its content too. Any thread. As load_low_rank.
inline Result<std::shared_ptr<const Adapter>> random_adapter(const Model& model, Ops& ops, uint64_t seed) {
  constexpr int64_t kRank = 3;
  const auto n_layers = static_cast<size_t>(model.info().n_layers);
  const auto sites = model.adapter_sites();
  Rng rng(seed);
  std::list<std::vector<float>> numbers;
  const auto some = [&](int64_t n) -> std::span<const float> {
    std::vector<float>& out = numbers.emplace_back(static_cast<size_t>(n));
    for (float& v : out) v = rng.normal() * 0.3F;
    return out;
  };
  std::vector<LowRankSource> from;
  for (const AdapterSite& site : sites) {
    from.push_back({.n_in = site.n_in, .n_out = site.n_out});
    if (static_cast<size_t>(site.layer) >= n_layers) continue;
    from.back().rank = kRank;
    from.back().a = some(kRank * site.n_in);
    from.back().b = some(kRank * site.n_out);
  }
  std::vector<LowRank> to(from.size());
  auto out = std::make_shared<Adapter>();
  QR_TRY(out->memory, ops.load_low_rank(from, to));
  out->content = seed;
  out->layers.resize(n_layers + 1);
  for (size_t i = 0; i < sites.size(); ++i) {
    if (from[i].rank == 0) continue;
    auto& product = out->layers[static_cast<size_t>(sites[i].layer)].*sites[i].product;
    product.resize(std::max(product.size(), sites[i].index + 1));
    product[sites[i].index] = to[i];
  }
  return std::shared_ptr<const Adapter>(std::move(out));
}

}  // namespace quire
