// Every field of every filter, as requests send it: read from the filters' own files, so one that is added is here.
#include <type_traits>

#include "sample/filters.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr const char* kPath = "/v1/completions";

std::string body_with(std::string_view field, double value, bool whole) {
  Json body = Json::Object{{"prompt", "x"}};
  body.set(std::string(field), whole ? Json(static_cast<int64_t>(value)) : Json(value));
  return body.dump();
}

TEST(FilterFields, BothEndsOfTheRangeReachTheEngine) {
  TestServer s;
  SamplingParams seen;
  s.engine.script = [&](const Request& r) {
    seen = r.sampling;
    return byte_tokens("x");
  };
  s.start();
  for_each_filter_field(
      [&](const FilterField& field, auto& value) {
        using T = std::remove_reference_t<decltype(value)>;
        for (const double sent : {field.lo, field.hi}) {
          ASSERT_EQ(s.post(kPath, body_with(field.name, sent, std::is_integral_v<T>)).status, 200) << field.name;
          EXPECT_EQ(value, taken<T>(field, sent)) << field.name << " " << sent;
        }
        if (field.other_name.empty()) return;
        ASSERT_EQ(s.post(kPath, body_with(field.other_name, field.hi, std::is_integral_v<T>)).status, 200);
        EXPECT_EQ(value, taken<T>(field, field.hi)) << field.other_name;
      },
      seen);
}

TEST(FilterFields, WhatLiesBeyondIsRefusedByName) {
  TestServer s;
  s.start();
  const SamplingParams types;
  for_each_filter_field(
      [&](const FilterField& field, const auto& value) {
        const bool whole = std::is_integral_v<std::remove_cvref_t<decltype(value)>>;
        for (const double sent : {field.lo - 1, field.hi + 1}) {
          const HttpResponse r = s.post(kPath, body_with(field.name, sent, whole));
          EXPECT_EQ(r.status, 400) << field.name << " " << sent;
          EXPECT_EQ(text_at(json_at(parse_json(r.body), "error", "param")), field.name);
        }
      },
      types);
}

}  // namespace
}  // namespace quire
