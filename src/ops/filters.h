// All filters, in the order in which they act where nobody asks for another: one file each in filters/, a
// specialisation of FilterOf (sample_filters.h). Known when compiling, not registered at the start: the tables of
// request fields are made before main, and no table is searched for a token.
#pragma once
#include <utility>

#include "ops/filters/min_p.h"
#include "ops/filters/mirostat_1.h"
#include "ops/filters/mirostat_2.h"
#include "ops/filters/temperature.h"
#include "ops/filters/top_k.h"
#include "ops/filters/top_n_sigma.h"
#include "ops/filters/top_p.h"
#include "ops/filters/typical_p.h"
#include "ops/filters/xtc.h"

namespace quire {

inline constexpr size_t kNFilters = static_cast<size_t>(Filter::mirostat_1) + 1;  // the enum's last

// visit(FilterOf<f>()) for each.
template <class Visit>
constexpr void for_each_filter(Visit&& visit) {
  [&]<size_t... i>(std::index_sequence<i...>) {
    (visit(FilterOf<static_cast<Filter>(i)>()), ...);
  }(std::make_index_sequence<kNFilters>());
}

// f(field, p.member…) for each field of each filter: `p` are structs that have all of the fields' members, such as
// SampleParams.
template <class F, class... P>
constexpr void for_each_filter_field(F&& f, P&... p) {
  for_each_filter([&](auto filter) { filter.fields(f, p...); });
}

}  // namespace quire
