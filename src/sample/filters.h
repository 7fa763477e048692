// The filters that requests name, and the numbers that they take: one file each in ops/filters/. What depends on the
// sequence's history is a rule (rules.h).
#pragma once
#include <string>

#include "ops/filters.h"
#include "sample/sampling_params.h"

namespace quire {

// What lists of samplers may name, each once, in the order of the filters: "temperature, top_n_sigma, …".
std::string listed_filters();

// The value of a field for the sampler, where a request's is `value`: a number as the filters have it.
template <class T>
T taken(const FilterField& field, double value) {
  return static_cast<T>(field.take != nullptr ? field.take(value) : value);
}

}  // namespace quire
