#include "sample/sampling_params.h"

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "sample/filters.h"

namespace quire {
namespace {

constexpr std::array kMirostat1 = {kFilter<filters::Temperature>, kFilter<filters::Mirostat1>};
constexpr std::array kMirostat2 = {kFilter<filters::Temperature>, kFilter<filters::Mirostat2>};

}  // namespace

std::optional<Filter> find_filter(std::string_view name) {
  std::optional<Filter> found;
  for_each_filter([&](auto filter) {
    const auto& listed = filter.kListed;
    if (std::find(listed.begin(), listed.end(), name) != listed.end()) found = kFilter<decltype(filter)>;
  });
  return found;
}

std::string listed_filters() {
  std::string out;
  for_each_filter([&](auto filter) {
    for (const std::string_view name : std::span(filter.kListed).first(std::min<size_t>(1, filter.kListed.size()))) {
      if (!out.empty()) out += ", ";
      out += name;
    }
  });
  return out;
}

static std::span<const Filter> order_of(const SamplingParams& wanted) {
  if (wanted.mirostat == 0) return wanted.order;
  return wanted.mirostat == 1 ? std::span<const Filter>(kMirostat1) : kMirostat2;
}

SampleParams sample_params(const SamplingParams& wanted, int64_t position, const LogitEdits* edits) {
  SampleParams out;
  static_cast<FilterNumbers&>(out) = wanted;
  out.min_keep = wanted.min_keep;
  out.order = order_of(wanted);
  const auto at = static_cast<uint64_t>(position);
  out.draw = random_unit(wanted.seed, at);
  for_each_filter([&](auto filter) {
    if constexpr (requires { filter.draw(out, wanted.seed, at); }) filter.draw(out, wanted.seed, at);
  });
  out.edits = edits;
  out.logprob = wanted.n_logprobs >= 0;
  out.of_drawn = out.logprob && wanted.drawn_logprobs;
  out.n_top = wanted.n_logprobs > 0 ? wanted.n_logprobs : 0;
  return out;
}

}  // namespace quire
