#include "model/adapter_builder.h"

#include <algorithm>
#include <cmath>

#include "base/hash128.h"
#include "io/in_quotes.h"
#include "model/paired_rows.h"
#include "ops/low_rank.h"

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
    out.n_out = std::max(out.n_out, sites[i].first_row + sites[i].n_out);  // some rows may be of two sites
  }
  return out;
}

int64_t AdapterBuilder::row_numbers(const LoraMatrices& of) {
  return of.rank + (of.magnitude.empty() ? 0 : kScalingRows);
}

Status AdapterBuilder::take_room(const Place& place, int64_t rank, bool has_magnitude) {
  bytes_ += rank * (place.n_in * static_cast<int64_t>(place.sites.size()) + place.n_out) * 4;
  if (has_magnitude) bytes_ += kScalingRows * place.n_out * 4;
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
  if (!matrices.magnitude.empty()) QR_TRY_VOID(scale_rows(place, matrices, label_b));
  matrices_.push_back(std::move(matrices));
  for (const size_t i : place.sites) {
    if (at_site_.emplace(i, matrices_.size() - 1).second) continue;
    return fail(Code::corrupt,
                "tensor " + label_a + ": two modules mean " + in_quotes(model_.adapter_sites()[i].tensor));
  }
  return {};
}

// y = factor · (W·x + B·A·x) + bias, factor = magnitude / ‖W + B·A‖ of each row: the product that there is has the bias
// already.
Status AdapterBuilder::scale_rows(const Place& place, LoraMatrices& matrices, const std::string& label) {
  const std::string& tensor = model_.adapter_sites()[place.sites.front()].tensor;
  QR_TRY(const std::vector<float> bias, base_.bias_of(tensor, place.n_out));
  const auto rank = static_cast<size_t>(matrices.rank), n_in = static_cast<size_t>(place.n_in);
  std::vector<float> scaled, sum(n_in);
  scaled.reserve(static_cast<size_t>(place.n_out) * (rank + kScalingRows));
  int64_t bad = -1;
  const auto scale = [&](int64_t r, std::span<const float> row) {
    std::ranges::copy(row, sum.begin());
    const auto b = std::span(matrices.b).subspan(static_cast<size_t>(r) * rank, rank);
    for (size_t j = 0; j < rank; ++j) {
      const float* a = matrices.a.data() + j * n_in;
      for (size_t i = 0; i < n_in; ++i) sum[i] += b[j] * a[i];
    }
    double squares = 0;
    for (const float value : sum) squares += static_cast<double>(value) * value;
    const auto at = static_cast<size_t>(r);
    const auto factor = static_cast<float>(matrices.magnitude[at] / std::sqrt(squares));
    const auto first = std::ssize(scaled);
    for (const float value : b) scaled.push_back(factor * value);
    scaled.insert(scaled.end(), {factor, (1 - factor) * bias[at]});
    const bool is_finite = std::all_of(scaled.begin() + first, scaled.end(), [](float x) { return x - x == 0; });
    if (!is_finite && bad < 0) bad = r;
  };
  QR_TRY_VOID(base_.each_row(tensor, place.n_out, place.n_in, scale));
  if (bad >= 0) {
    return fail(Code::corrupt, "tensor " + label + ": with it row " + std::to_string(bad) + " of " + in_quotes(tensor) +
                                   " has a length that no magnitude can scale");
  }
  matrices.b = std::move(scaled);
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
    one.b = std::span(its.b).subspan(static_cast<size_t>(sites[i].first_row * row_numbers(its)),
                                     static_cast<size_t>(sites[i].n_out * row_numbers(its)));
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
