// All filters: what reshapes or cuts a row's distribution, one after the other in the order that is asked for
// (docs/sampling.md). One file each in filters/; to add one, add its include and its name to the list here. Known when
// compiling, not registered at the start: the tables of request fields are made before main, and no table is searched
// for a token.
#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
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

template <class... F>
struct FilterList {
  struct Numbers : F::Numbers... {};
  using Types = std::tuple<F...>;
  static constexpr size_t kSize = sizeof...(F);
  static constexpr std::array<bool, kSize> kIsListed = {!F::kListed.empty()...};
  template <class One>
  static constexpr size_t place() {
    constexpr std::array<bool, kSize> kIsIt = {std::is_same_v<One, F>...};
    size_t i = 0;
    while (!kIsIt.at(i)) ++i;
    return i;
  }
};

// In the order in which they act where nobody asks for another.
using Filters = FilterList<filters::Temperature,
                           filters::TopNSigma,
                           filters::MinP,
                           filters::TopK,
                           filters::TypicalP,
                           filters::TopP,
                           filters::Xtc,
                           filters::Mirostat2,
                           filters::Mirostat1>;

// A filter by its place in the list.
enum class Filter : uint8_t {};
template <class F>
inline constexpr Filter kFilter = static_cast<Filter>(Filters::place<F>());

// The numbers of all of them, as members.
using FilterNumbers = Filters::Numbers;

// Those that lists of samplers name.
inline constexpr size_t kNListed = [] {
  size_t n = 0;
  for (const bool listed : Filters::kIsListed) n += listed ? 1 : 0;
  return n;
}();
inline constexpr std::array<Filter, kNListed> kDefaultOrder = [] {
  std::array<Filter, kNListed> out = {};
  size_t n = 0;
  for (size_t i = 0; i < Filters::kSize; ++i) {
    if (Filters::kIsListed[i]) out[n++] = static_cast<Filter>(i);
  }
  return out;
}();

// visit(the filter's struct) for each.
template <class Visit>
constexpr void for_each_filter(Visit&& visit) {
  [&]<size_t... i>(std::index_sequence<i...>) {
    (visit(std::tuple_element_t<i, Filters::Types>()), ...);
  }(std::make_index_sequence<Filters::kSize>());
}

// f(field, p.member…) for each field of each filter: `p` are structs that have all of the fields' members, as
// FilterNumbers has.
template <class F, class... P>
constexpr void for_each_filter_field(F&& f, P&... p) {
  for_each_filter([&](auto filter) { filter.fields(f, p...); });
}

}  // namespace quire
