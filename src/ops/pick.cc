#include "ops/pick.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/check.h"

namespace quire {
namespace {

void put_double(double from, int32_t* to) {
  const auto bits = std::bit_cast<uint64_t>(from);
  to[0] = static_cast<int32_t>(bits & 0xffffffffU);
  to[1] = static_cast<int32_t>(bits >> 32);
}

// Whether a filter of kPickFilters changes anything.
bool acts(Filter filter, const SampleParams& params) {
  if (filter == kFilter<filters::MinP>) return params.min_p > 0.0F;
  if (filter == kFilter<filters::TopK>) return params.top_k > 0;
  if (filter == kFilter<filters::TopP>) return params.top_p < 1.0F;
  return true;
}

// The place in kPickFilters of a filter that acts.
std::optional<uint32_t> place_of(Filter filter, const SampleParams& params) {
  const auto* const at = std::ranges::find(kPickFilters, filter);
  if (at == kPickFilters.end() || !acts(filter, params)) return std::nullopt;
  return static_cast<uint32_t>(at - kPickFilters.begin());
}

bool is_of_pick(std::string_view field) {
  return field == "temperature" || field == "min_p" || field == "top_k" || field == "top_p";
}

}  // namespace

bool can_pick(const SampleParams& params) {
  if (params.edits != nullptr || params.forced >= 0) return false;
  if (params.temperature <= 0.0F) return true;
  bool others_rest = true;
  const FilterNumbers neutral;
  const auto look = [&](const FilterField& field, const auto& value, const auto& at_rest) {
    others_rest = others_rest && (is_of_pick(field.name) || value == at_rest);
  };
  for_each_filter_field(look, params, neutral);
  const bool all_are_listed = std::ranges::all_of(
      params.order, [](Filter filter) { return Filters::kIsListed.at(static_cast<size_t>(filter)); });
  const bool is_sum_enough = params.top_p <= kMostPickTopP || params.top_p >= 1.0F;
  return others_rest && all_are_listed && params.min_keep <= 1 && is_sum_enough;
}

void put_pick(const SampleParams& params, int32_t* to) {
  QR_DCHECK(can_pick(params));
  std::fill_n(to, kPickNumbers, 0);
  if (params.temperature <= 0.0F) return;
  uint32_t order = 0;
  float factor = 1.0F;
  int n = 0;
  for (const Filter filter : params.order) {
    const std::optional<uint32_t> place = place_of(filter, params);
    if (!place) continue;
    order |= (*place + 1) << 4 * n++;
    if (filter == kFilter<filters::Temperature>) factor = 1.0F / params.temperature;
    if (filter == kFilter<filters::MinP>)
      put_double(std::log(static_cast<double>(params.min_p)) / static_cast<double>(factor), to + 6);
  }
  to[0] = std::bit_cast<int32_t>(params.temperature);
  put_double(params.draw, to + 1);
  to[3] = static_cast<int32_t>(order);
  to[4] = params.top_k;
  to[5] = std::bit_cast<int32_t>(params.top_p);
  to[8] = std::bit_cast<int32_t>(params.min_p);
}

SampleParams picked_by(const int32_t* from, PickOrder& order) {
  SampleParams out;
  out.temperature = std::bit_cast<float>(from[0]);
  out.draw =
      std::bit_cast<double>(uint64_t{static_cast<uint32_t>(from[1])} | uint64_t{static_cast<uint32_t>(from[2])} << 32);
  size_t n = 0;
  for (auto left = static_cast<uint32_t>(from[3]); left != 0; left >>= 4)
    order.at(n++) = kPickFilters.at((left & 15U) - 1);
  out.order = std::span(order).first(n);
  out.top_k = from[4];
  out.top_p = std::bit_cast<float>(from[5]);
  out.min_p = std::bit_cast<float>(from[8]);
  out.logprob = false;
  return out;
}

}  // namespace quire
