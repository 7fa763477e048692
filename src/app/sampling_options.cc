#include "app/sampling_options.h"

#include <algorithm>
#include <type_traits>

#include "sample/filters.h"

namespace quire {
namespace {

// The one field of these that no filter has: a rule's, and its option is its command's own.
constexpr FilterField kRepetition = {
    .name = "repetition_penalty",
    .lo = 0.01,
    .hi = 100,
    .neutral = 1,
    .advice = {.usual = 1, .hf = "hf_generation.repetition_penalty", .gguf = "general.sampling.penalty_repeat"}};

// f(field, member) for each field that has an option; `types` tells the kind of its value.
template <class F>
void for_each_option(F&& f) {
  const SamplingParams types;
  for_each_filter_field(
      [&](const FilterField& field, const auto& member) {
        if (!field.advice.option.empty()) f(field, member);
      },
      types);
}

template <class T>
auto& chosen(SamplingChoice& choice, const T&) {
  if constexpr (std::is_integral_v<T>)
    return choice.integers;
  else
    return choice.numbers;
}

// Its value on the command line; below 0: not given.
double given(const SamplingChoice& choice, std::string_view field) {
  if (const auto it = choice.numbers.find(field); it != choice.numbers.end()) return it->second;
  const auto it = choice.integers.find(field);
  return it != choice.integers.end() ? it->second : -1;
}

void set_default(const FilterField& field, const Metadata& meta, SamplingDefaults& out) {
  const double lo = std::max(field.lo, 0.0);
  out.set(field.name, field.advice.usual, "table");
  if (const auto value = meta.get_double(field.advice.gguf, lo, field.hi))
    out.set(field.name, *value, "general.sampling");
  if (const auto value = meta.get_double(field.advice.hf, lo, field.hi))
    out.set(field.name, *value, "generation_config.json");
}

}  // namespace

void declare_sampling_options(CommandLine& line, SamplingChoice& choice) {
  for_each_option([&](const FilterField& field, const auto& member) {
    auto& value = chosen(choice, member).try_emplace(field.name, -1).first->second;
    line.option(field.advice.option, value, {0, field.hi, -1}, field.advice.help);
  });
}

Status check(const SamplingChoice& choice) {
  Status out;
  for_each_option([&](const FilterField& field, const auto&) {
    const double value = given(choice, field.name);
    const std::string name(field.advice.option.substr(0, field.advice.option.find(',')));
    if (out && value != -1) out = in_range(name.c_str(), value, 0, field.hi);
  });
  return out;
}

SamplingDefaults model_sampling(const Metadata& meta) {
  SamplingDefaults out;
  for_each_option([&](const FilterField& field, const auto&) { set_default(field, meta, out); });
  set_default(kRepetition, meta, out);
  return out;
}

void apply(const SamplingChoice& choice, SamplingDefaults& defaults) {
  for_each_option([&](const FilterField& field, const auto&) {
    if (const double value = given(choice, field.name); value >= 0) defaults.set(field.name, value, "option");
  });
}

void set_fields(const SamplingChoice& choice, Json& request) {
  for (const auto& [field, value] : choice.numbers) {
    if (value >= 0) request.set(std::string(field), value);
  }
  for (const auto& [field, value] : choice.integers) {
    if (value >= 0) request.set(std::string(field), static_cast<int64_t>(value));
  }
}

SamplingParams sampling_params(const SamplingDefaults& defaults) {
  SamplingParams out;
  for_each_filter_field(
      [&](const FilterField& field, auto& value) {
        value = static_cast<std::remove_reference_t<decltype(value)>>(defaults.get(field.name, field.neutral));
      },
      out);
  out.repetition_penalty = static_cast<float>(defaults.get(kRepetition.name, kRepetition.neutral));
  return out;
}

}  // namespace quire
