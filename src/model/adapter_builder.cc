#include "model/adapter_builder.h"

#include <algorithm>

#include "base/hash128.h"
#include "io/in_quotes.h"
#include "model/paired_rows.h"

namespace quire {
namespace {

constexpr uint64_t kContentSeed = 0x6c6f7261ULL;

uint64_t content_of(const std::vector<LowRankSource>& from) {
  std::vector<uint64_t> words;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].rank == 0) continue;
    const Hash128 a = hash128(std::as_bytes(from[i].a), kContentSeed);
    const Hash128 b = hash128(std::as_bytes(from[i].b), kContentSeed);
    words.insert(words.end(), {i, static_cast<uint64_t>(from[i].rank), a.lo, a.hi, b.lo, b.hi});
  }
  return std::max<uint64_t>(hash128(std::as_bytes(std::span(words)), kContentSeed).lo, 1);
}

std::vector<float> rows_in_order(const LoraMatrices& of, const ModelInfo& info, bool pairs) {
  const auto rank = static_cast<size_t>(of.rank);
  const int64_t n_out = static_cast<int64_t>(of.b.size()) / of.rank;
  std::vector<float> out(of.b.size());
  for (int64_t paired = 0; paired < n_out; ++paired) {
    const int64_t plain = unpaired_row(paired, info.head_dim, info.n_rope);
    const int64_t from = pairs ? plain : paired, to = pairs ? paired : plain;
    std::copy_n(of.b.begin() + from * of.rank, rank, out.begin() + to * of.rank);
  }
  return out;
}

}  // namespace

AdapterBuilder::Place AdapterBuilder::place_of(std::string_view tensor) const {
  Place out;
  const auto sites = model_.adapter_sites();
  for (size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].tensor != tensor) continue;
    out.sites.push_back(i);
    out.n_in = sites[i].n_in;
    out.n_out += sites[i].n_out;
  }
  return out;
}

Status AdapterBuilder::take_room(const Place& place, int64_t rank) {
  bytes_ += rank * (place.n_in * static_cast<int64_t>(place.sites.size()) + place.n_out) * 4;
  if (bytes_ <= most_bytes_) return {};
  return fail(Code::exhausted, "its matrices take " + std::to_string(bytes_) + " bytes and more; there is room for " +
                                   std::to_string(most_bytes_));
}

Status AdapterBuilder::add(
    const Place& place, LoraMatrices matrices, double factor, const std::string& label_a, const std::string& label_b) {
  const auto by = static_cast<float>(factor);
  for (float& value : matrices.b) value *= by;
  if (!std::ranges::all_of(matrices.b, [](float value) { return value - value == 0; })) {
    return fail(Code::corrupt,
                "tensor " + label_b + ": times its factor of " + std::to_string(by) + " it is not finite");
  }
  matrices_.push_back(std::move(matrices));
  for (const size_t i : place.sites) {
    if (at_site_.emplace(i, matrices_.size() - 1).second) continue;
    return fail(Code::corrupt,
                "tensor " + label_a + ": two modules mean " + in_quotes(model_.adapter_sites()[i].tensor));
  }
  return {};
}

Result<std::shared_ptr<const Adapter>> AdapterBuilder::finish() {
  const auto sites = model_.adapter_sites();
  std::vector<LowRankSource> from;
  std::vector<LowRank> to(sites.size());
  for (size_t i = 0; i < sites.size(); ++i) {
    LowRankSource& one = from.emplace_back(LowRankSource{.n_in = sites[i].n_in, .n_out = sites[i].n_out});
    const auto at = at_site_.find(i);
    if (at == at_site_.end()) continue;
    const LoraMatrices& its = matrices_[at->second];
    one.rank = its.rank;
    one.a = its.a;
    one.b = std::span(its.b).subspan(static_cast<size_t>(sites[i].first_row * its.rank),
                                     static_cast<size_t>(sites[i].n_out * its.rank));
  }
  auto out = std::make_shared<Adapter>();
  QR_TRY(out->memory, ops_.load_low_rank(from, to));
  out->content = content_of(from);
  out->layers.resize(static_cast<size_t>(model_.info().n_layers));
  for (size_t i = 0; i < sites.size(); ++i) {
    auto& product = out->layers[static_cast<size_t>(sites[i].layer)].*sites[i].product;
    product.resize(std::max(product.size(), sites[i].index + 1));
    product[sites[i].index] = to[i];
  }
  for (AdapterLayer& layer : out->layers) {
    for (auto* product : {&layer.qkv, &layer.attn_gate, &layer.attn_out, &layer.gate_up, &layer.down}) {
      if (std::ranges::all_of(*product, &LowRank::empty)) product->clear();
    }
  }
  return out;
}

std::vector<float> paired_rows_of(const LoraMatrices& of, const ModelInfo& info) {
  return rows_in_order(of, info, true);
}
std::vector<float> unpaired_rows_of(const LoraMatrices& of, const ModelInfo& info) {
  return rows_in_order(of, info, false);
}
bool is_turned(std::string_view tensor) {
  return tensor.ends_with(".attn_q.weight") || tensor.ends_with(".attn_k.weight");
}

}  // namespace quire
