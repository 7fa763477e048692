// What follows from the filters' files: a filter that is added is in these tests without a change here.
#include "sample/filters.h"

#include <gtest/gtest.h>

#include <set>
#include <type_traits>

namespace quire {
namespace {

// Of another value for each field, none of them what is set already.
SamplingParams all_set() {
  SamplingParams out;
  int n = 2;
  for_each_filter_field(
      [&](const FilterField&, auto& value) { value = static_cast<std::remove_reference_t<decltype(value)>>(n++); },
      out);
  return out;
}

TEST(Filters, TheDefaultOrderIsThatOfTheListWithoutMirostat) {
  const std::vector<Filter> expected = {
      kFilter<filters::Temperature>, kFilter<filters::TopNSigma>, kFilter<filters::MinP>, kFilter<filters::TopK>,
      kFilter<filters::TypicalP>,    kFilter<filters::TopP>,      kFilter<filters::Xtc>};
  EXPECT_EQ(std::vector<Filter>(kDefaultOrder.begin(), kDefaultOrder.end()), expected);
}

TEST(Filters, ListsNameEachOnce) {
  std::set<std::string_view> names;
  size_t n = 0;
  for_each_filter([&](auto filter) {
    for (const std::string_view name : filter.kListed) {
      names.insert(name);
      ++n;
      EXPECT_EQ(find_filter(name), kFilter<decltype(filter)>) << name;
    }
  });
  EXPECT_EQ(names.size(), n);
  EXPECT_EQ(listed_filters(), "temperature, top_n_sigma, min_p, top_k, typ_p, top_p, xtc");
}

TEST(Filters, FieldsHaveTheirOwnNamesAndRanges) {
  std::set<std::string_view> names, options;
  size_t n = 0, n_options = 0;
  for_each_filter_field([&](const FilterField& field) {
    names.insert(field.name);
    ++n;
    if (!field.other_name.empty()) {
      names.insert(field.other_name);
      ++n;
    }
    EXPECT_LT(field.lo, field.hi) << field.name;
    EXPECT_LE(field.lo, field.neutral) << field.name;
    EXPECT_LE(field.neutral, field.hi) << field.name;
    if (field.advice.option.empty()) return;
    options.insert(field.advice.option);
    ++n_options;
    EXPECT_GE(field.advice.usual, 0) << field.name;
    EXPECT_LE(field.advice.usual, field.hi) << field.name;
    EXPECT_FALSE(field.advice.help.empty() || field.advice.hf.empty() || field.advice.gguf.empty()) << field.name;
  });
  EXPECT_EQ(names.size(), n);
  EXPECT_EQ(options.size(), n_options);
}

TEST(Filters, NeutralIsWhatParametersBeginWith) {
  const SamplingParams params;
  for_each_filter_field(
      [](const FilterField& field, const auto& value) {
        EXPECT_EQ(value, taken<std::remove_cvref_t<decltype(value)>>(field, field.neutral)) << field.name;
      },
      params);
}

TEST(Filters, EveryNumberReachesTheOp) {
  const SamplingParams wanted = all_set();
  const SampleParams op = sample_params(wanted, 0, nullptr);
  for_each_filter_field(
      [](const FilterField& field, const auto& asked, const auto& got) { EXPECT_EQ(asked, got) << field.name; }, wanted,
      op);
  EXPECT_EQ(op.temperature, 2.0F);
  EXPECT_NE(op.top_k, SampleParams().top_k);
}

}  // namespace
}  // namespace quire
