#include "sample/sampling_params.h"

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "sample/filters.h"

namespace quire {
namespace {

constexpr std::array kMirostat1 = {Filter::temperature, Filter::mirostat_1};
constexpr std::array kMirostat2 = {Filter::temperature, Filter::mirostat_2};
constexpr uint64_t kXtcStream = 0x58c3a5d1f2b46e97;  // a second number per position, unrelated to the first

}  // namespace

std::optional<Filter> find_filter(std::string_view name) {
  std::optional<Filter> found;
  int place = 0;
  for_each_filter([&](auto filter) {
    const auto& listed = filter.kListed;
    if (std::find(listed.begin(), listed.end(), name) != listed.end()) found = static_cast<Filter>(place);
    ++place;
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
  for_each_filter_field([](const FilterField&, const auto& from, auto& to) { to = from; }, wanted, out);
  out.min_keep = wanted.min_keep;
  out.order = order_of(wanted);
  out.draw = random_unit(wanted.seed, static_cast<uint64_t>(position));
  if (wanted.xtc_probability > 0.0F)
    out.xtc_draw = random_unit(wanted.seed ^ kXtcStream, static_cast<uint64_t>(position));
  out.edits = edits;
  out.logprob = wanted.n_logprobs >= 0;
  out.of_drawn = out.logprob && wanted.drawn_logprobs;
  out.n_top = wanted.n_logprobs > 0 ? wanted.n_logprobs : 0;
  return out;
}

}  // namespace quire
