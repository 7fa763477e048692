#include "model/adapter_builder.h"

#include <algorithm>
#include <cmath>

#include "base/hash128.h"
#include "io/in_quotes.h"
#include "model/adapter_ends.h"
#include "model/paired_rows.h"
#include "ops/low_rank.h"

namespace quire {
namespace {

constexpr uint64_t kContentSeed = 0x6c6f7261ULL;

uint64_t content_of(const std::vector<LowRankSource>& from, std::span<const Token> invocation) {
  std::vector<uint64_t> words;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].rank == 0) continue;
    const Hash128 a = hash128(std::as_bytes(from[i].a), kContentSeed);
    const Hash128 b = hash128(std::as_bytes(from[i].b), kContentSeed);
    words.insert(words.end(), {i, static_cast<uint64_t>(from[i].rank), a.lo, a.hi, b.lo, b.hi});
  }
  words.insert(words.end(), invocation.begin(), invocation.end());
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

AdapterBuilder::AdapterBuilder(const Model& model, Ops& ops, const BaseModel& base, int64_t most_bytes)
    : model_(model), ops_(ops), base_(base), most_bytes_(most_bytes) {
  const auto sites = model.adapter_sites();
  for (size_t i = 0; i < sites.size(); ++i) sites_of_[sites[i].tensor].push_back(i);
}

AdapterBuilder::Place AdapterBuilder::place_of(std::string_view tensor) const {
  Place out;
  const auto found = sites_of_.find(tensor);
  if (found == sites_of_.end()) return out;
  out.sites = found->second;
  for (const size_t i : out.sites) {
    const AdapterSite& site = model_.adapter_sites()[i];
    out.n_in = site.n_in;
    out.n_out = std::max(out.n_out, site.first_row + site.n_out);  // some rows may be of two sites
    out.looks_up = site.product == kEmbedding && site.layer == model_.info().n_layers;
  }
  return out;
}

AdapterBuilder::Stack AdapterBuilder::stack_of(std::string_view tensor) const {
  Stack out;
  constexpr std::string_view kEnd = "_exps.weight", kPart = "ffn_";
  const size_t at = tensor.find(kPart);
  if (!tensor.ends_with(kEnd) || at == std::string_view::npos) return out;
  const std::string front(tensor.substr(0, at + kPart.size()));
  const std::string what(tensor.substr(front.size(), tensor.size() - front.size() - kEnd.size()));
  const std::vector<std::string> parts =
      what == "gate_up" ? std::vector<std::string>{"gate", "up"} : std::vector<std::string>{what};
  for (int e = 0;; ++e) {
    std::vector<Place> places;
    int64_t n_out = 0;
    for (const std::string& part : parts) {
      const Place& one = places.emplace_back(place_of(front + part + "." + std::to_string(e) + ".weight"));
      if (one.sites.empty()) return out;
      n_out += one.n_out;
    }
    out.n_in = places.front().n_in;
    out.n_out = n_out;
    out.experts.push_back(std::move(places));
  }
}

Status AdapterBuilder::add_stack(const Stack& stack,
                                 const LoraMatrices& all,
                                 double factor,
                                 const std::string& label_a,
                                 const std::string& label_b) {
  auto a = all.a.begin();
  auto b = all.b.begin();
  for (const std::vector<Place>& places : stack.experts) {
    const auto a_end = a + all.rank * stack.n_in;
    for (const Place& place : places) {
      const auto b_end = b + all.rank * place.n_out;
      QR_TRY_VOID(add(place, {.rank = all.rank, .a = {a, a_end}, .b = {b, b_end}}, factor, label_a, label_b));
      b = b_end;
    }
    a = a_end;
  }
  return {};
}

int64_t AdapterBuilder::row_numbers(const LoraMatrices& of) {
  return of.rank + (of.magnitude.empty() ? 0 : kScalingRows);
}

Status AdapterBuilder::take_room(const Place& place, int64_t rank, bool has_magnitude) {
  if (place.sites.empty()) return {};
  bytes_ += rank * (place.n_in * static_cast<int64_t>(place.sites.size()) + place.n_out) * 4;
  if (has_magnitude) bytes_ += kScalingRows * place.n_out * 4;
  if (place.looks_up) bytes_ += rank * rank * 4;  // what leaves the table's rows as they are
  if (bytes_ <= most_bytes_) return {};
  return fail(Code::exhausted, "its matrices take " + std::to_string(bytes_) + " bytes and more; there is room for " +
                                   std::to_string(most_bytes_));
}

Status AdapterBuilder::take_room(const Stack& stack, int64_t rank) {
  for (const std::vector<Place>& places : stack.experts) {
    for (const Place& place : places) QR_TRY_VOID(take_room(place, rank));
  }
  return {};
}

Status AdapterBuilder::add(
    const Place& place, LoraMatrices matrices, double factor, const std::string& label_a, const std::string& label_b) {
  for (const size_t i : place.sites) {
    const AdapterSite& site = model_.adapter_sites()[i];
    if (site.why_not == nullptr) continue;
    return fail(Code::unsupported, "tensor " + label_a + ": adapters cannot add to this model's " +
                                       in_quotes(site.tensor) + ": " + site.why_not);
  }
  const auto by = static_cast<float>(factor);
  for (float& value : matrices.b) value *= by;
  if (!std::ranges::all_of(matrices.b, [](float value) { return value - value == 0; })) {
    return fail(Code::corrupt,
                "tensor " + label_b + ": times its factor of " + std::to_string(by) + " it is not finite");
  }
  if (!matrices.magnitude.empty() && place.looks_up) QR_TRY_VOID(scale_columns(place, matrices, label_b));
  if (!matrices.magnitude.empty() && !place.looks_up) QR_TRY_VOID(scale_rows(place, matrices, label_b));
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

// Every token's row of W + (A·B)ᵀ counts in the lengths of its columns.
Status AdapterBuilder::scale_columns(const Place& place, LoraMatrices& matrices, const std::string& label) {
  const std::string& tensor = model_.adapter_sites()[place.sites.front()].tensor;
  const auto rank = static_cast<size_t>(matrices.rank), n_out = static_cast<size_t>(place.n_out);
  std::vector<float> b(matrices.b.size()), sum(n_out);  // b [rank, n_out]
  for (size_t i = 0; i < b.size(); ++i) b[i % rank * n_out + i / rank] = matrices.b[i];
  std::vector<double> squares(n_out);
  QR_TRY_VOID(base_.each_row(tensor, place.n_in, place.n_out, [&](int64_t token, std::span<const float> row) {
    std::ranges::copy(row, sum.begin());
    for (size_t j = 0; j < rank; ++j) {
      const float by = matrices.a[static_cast<size_t>(token) * rank + j];
      for (size_t i = 0; i < n_out; ++i) sum[i] += by * b[j * n_out + i];
    }
    for (size_t i = 0; i < n_out; ++i) squares[i] += static_cast<double>(sum[i]) * sum[i];
  }));
  std::vector<float> scaled;
  scaled.reserve(n_out * (rank + kScalingRows));
  for (size_t i = 0; i < n_out; ++i) {
    const auto factor = static_cast<float>(matrices.magnitude[i] / std::sqrt(squares[i]));
    const auto first = std::ssize(scaled);
    for (size_t j = 0; j < rank; ++j) scaled.push_back(factor * b[j * n_out + i]);
    scaled.insert(scaled.end(), {factor, 0.0F});
    if (!std::all_of(scaled.begin() + first, scaled.end(), [](float x) { return std::isfinite(x); })) {
      return fail(Code::corrupt, "tensor " + label + ": with it column " + std::to_string(i) + " of " +
                                     in_quotes(tensor) + " has a length that no magnitude can scale");
    }
  }
  matrices.b = std::move(scaled);
  return {};
}

Status AdapterBuilder::check_same(const std::string& tensor, const HostWeight& theirs) {
  // Of a row's length: more than BF16 loses, and more than weights of two bits lose. Beside it what F16 cannot say.
  constexpr double kMostOfFloats = 0.01, kMostOfBits = 0.5, kLeast = 6e-8;
  const int64_t n_out = theirs.shape[0], n_in = theirs.shape[1];
  QR_TRY(const bool has_floats, base_.has_floats(tensor, n_out, n_in));
  const double most = std::pow(has_floats ? kMostOfFloats : kMostOfBits, 2);
  const double least = kLeast * kLeast * static_cast<double>(n_in);
  std::vector<float> its(static_cast<size_t>(n_in));
  int64_t other = -1;
  QR_TRY_VOID(base_.each_row(tensor, n_out, n_in, [&](int64_t r, std::span<const float> row) {
    double difference = 0, length = 0, its_length = 0;
    for (size_t i = 0; i < its.size(); ++i) {
      const auto at = (r * n_in + static_cast<int64_t>(i)) * theirs.format->bytes;
      theirs.format->decode(theirs.data.data() + at, &its[i]);
      difference += std::pow(static_cast<double>(its[i]) - row[i], 2);
      length += std::pow(static_cast<double>(row[i]), 2);
      its_length += std::pow(static_cast<double>(its[i]), 2);
    }
    const bool is_same = difference <= most * std::max(length, its_length) + least;  // not of what is no number
    if (!is_same && other < 0) other = r;
  }));
  if (other < 0) return {};
  return fail(Code::unsupported, "tensor " + in_quotes(theirs.name) + ": row " + std::to_string(other) +
                                     " is not the model's: it was made for another model, or this part of it was "
                                     "trained too");
}

// What an embedding's A is: a table of tokens, which takes the last place. In its own place stays what leaves the rows
// found there as they are, and B behind it. `same` is what the first points to.
void AdapterBuilder::put_table_behind(std::vector<LowRankSource>& from, std::vector<float>& same) const {
  for (const auto& [i, unused] : at_site_) {
    const AdapterSite& site = model_.adapter_sites()[i];
    if (site.product != kEmbedding || site.layer != model_.info().n_layers) continue;
    LowRankSource& its = from[i];
    const int64_t rank = its.rank;
    same.assign(static_cast<size_t>(rank * rank), 0.0F);
    for (int64_t j = 0; j < rank; ++j) same[static_cast<size_t>(j * (rank + 1))] = 1.0F;
    const LowRankSource table{.a = its.a, .rank = its.n_in, .n_in = rank};
    its.a = same;
    its.n_in = rank;
    from.push_back(table);
    return;
  }
}

// Those of layers and ends, then, as far as there is something for any of them, of all units beside experts and of all
// experts.
size_t AdapterBuilder::number_of_entries() const {
  const int n_layers = model_.info().n_layers;
  int last = n_layers, last_of_all = 0;
  for (const auto& [i, unused] : at_site_) last = std::max(last, model_.adapter_sites()[i].layer);
  for (const AdapterSite& site : model_.adapter_sites()) last_of_all = std::max(last_of_all, site.layer);
  if (last > 2 * n_layers) return static_cast<size_t>(last_of_all) + 1;
  return static_cast<size_t>(last > n_layers ? 2 * n_layers : n_layers) + 1;
}

Status AdapterBuilder::invoke_by(const std::string& key, std::span<const int64_t> tokens) {
  const std::string front = "key " + in_quotes(key) + ": ";
  if (tokens.size() > kMostInvocation) {
    return fail(Code::corrupt, front + "must have at most " + std::to_string(kMostInvocation) + " tokens, has " +
                                   std::to_string(tokens.size()));
  }
  const int n_vocab = model_.info().n_vocab;
  const auto bad = std::ranges::find_if(tokens, [&](int64_t token) { return token < 0 || token >= n_vocab; });
  if (bad != tokens.end()) {
    return fail(Code::corrupt, front + "token " + std::to_string(bad - tokens.begin()) + " must be 0 to " +
                                   std::to_string(n_vocab - 1) + ", the vocabulary's last, found " +
                                   std::to_string(*bad));
  }
  invocation_.assign(tokens.begin(), tokens.end());
  return {};
}

Result<std::shared_ptr<const Adapter>> AdapterBuilder::finish() {
  const auto sites = model_.adapter_sites();
  std::vector<LowRankSource> from;
  std::vector<float> same;  // of an embedding's numbers what they are
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
  put_table_behind(from, same);
  std::vector<LowRank> to(from.size());
  auto out = std::make_shared<Adapter>();
  QR_TRY(out->memory, ops_.load_low_rank(from, to));
  out->content = content_of(from, invocation_);
  out->invocation = invocation_;
  const auto ends = static_cast<size_t>(model_.info().n_layers);
  out->layers.resize(number_of_entries());
  for (size_t i = 0; i < sites.size(); ++i) {
    if (static_cast<size_t>(sites[i].layer) >= out->layers.size()) continue;
    auto& product = out->layers[static_cast<size_t>(sites[i].layer)].*sites[i].product;
    product.resize(std::max(product.size(), sites[i].index + 1));
    product[sites[i].index] = to[i];
  }
  for (AdapterLayer& layer : out->layers) {
    for (auto* product : {&layer.qkv, &layer.attn_gate, &layer.attn_out, &layer.gate_up, &layer.down}) {
      if (std::ranges::all_of(*product, &LowRank::empty)) product->clear();
    }
  }
  if (to.size() > sites.size()) out->layers[ends].*kEmbeddingTable = {to.back()};
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
