#include "sample/sampling_params.h"

#include <utility>

#include "base/rng.h"

namespace quire {
namespace {

constexpr std::array kMirostat1 = {Filter::temperature, Filter::mirostat_1};
constexpr std::array kMirostat2 = {Filter::temperature, Filter::mirostat_2};
constexpr uint64_t kXtcStream = 0x58c3a5d1f2b46e97;  // a second number per position, unrelated to the first

constexpr std::pair<std::string_view, Filter> kNames[] = {
    {"temperature", Filter::temperature},
    {"top_n_sigma", Filter::top_n_sigma},
    {"min_p", Filter::min_p},
    {"top_k", Filter::top_k},
    {"typical_p", Filter::typical_p},
    {"typ_p", Filter::typical_p},
    {"top_p", Filter::top_p},
    {"xtc", Filter::xtc},
};

}  // namespace

std::optional<Filter> find_filter(std::string_view name) {
  for (const auto& [known, filter] : kNames) {
    if (known == name) return filter;
  }
  return std::nullopt;
}

static std::span<const Filter> order_of(const SamplingParams& wanted) {
  if (wanted.mirostat == 0) return wanted.order;
  return wanted.mirostat == 1 ? std::span<const Filter>(kMirostat1) : kMirostat2;
}

SampleParams sample_params(const SamplingParams& wanted, int64_t position, const LogitEdits* edits) {
  SampleParams out;
  out.temperature = wanted.temperature;
  out.dynatemp_range = wanted.dynatemp_range;
  out.dynatemp_exponent = wanted.dynatemp_exponent;
  out.top_k = wanted.top_k;
  out.top_p = wanted.top_p;
  out.min_p = wanted.min_p;
  out.typical_p = wanted.typical_p;
  out.top_n_sigma = wanted.top_n_sigma;
  out.xtc_probability = wanted.xtc_probability;
  out.xtc_threshold = wanted.xtc_threshold;
  out.min_keep = wanted.min_keep;
  out.order = order_of(wanted);
  out.draw = random_unit(wanted.seed, static_cast<uint64_t>(position));
  if (wanted.xtc_probability > 0.0F)
    out.xtc_draw = random_unit(wanted.seed ^ kXtcStream, static_cast<uint64_t>(position));
  out.edits = edits;
  out.logprob = wanted.n_logprobs >= 0;
  out.n_top = wanted.n_logprobs > 0 ? wanted.n_logprobs : 0;
  return out;
}

}  // namespace quire
