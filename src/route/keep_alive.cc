#include "route/keep_alive.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "base/json.h"
#include "http/message.h"

namespace quire {
namespace {

struct Unit {
  std::string_view name;
  double ms;
};
// Longer names first, of those that begin alike.
constexpr std::array<Unit, 7> kUnits{
    {{"ms", 1}, {"us", 1e-3}, {"\xc2\xb5s", 1e-3}, {"ns", 1e-6}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}}};

tl::unexpected<Error> refuse(std::string_view text) {
  return fail(Code::invalid, "must be a time such as 5m, a number of seconds, 0 for at once, or -1 for ever, got \"" +
                                 shown(text) + "\"");
}

tl::unexpected<Error> too_long(std::string_view text) {
  return fail(Code::invalid, "must be at most 100 years, or -1 for ever, got \"" + shown(text) + "\"");
}

const Unit* take_unit(std::string_view& rest) {
  for (const Unit& unit : kUnits) {
    if (!rest.starts_with(unit.name)) continue;
    rest.remove_prefix(unit.name.size());
    return &unit;
  }
  return nullptr;
}

}  // namespace

Result<int64_t> parse_keep_alive(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty()) return refuse(text);
  double ms = 0;
  while (!rest.empty()) {
    const bool alone = rest.size() + (negative ? 1 : 0) == text.size();
    double number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (error != std::errc() || rest.front() == '-' || !std::isfinite(number)) return refuse(text);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const Unit* unit = take_unit(rest);
    if (unit == nullptr && !(alone && rest.empty())) return refuse(text);
    ms += number * (unit != nullptr ? unit->ms : 1e3);
  }
  if (negative && ms > 0) return kKeepForever;
  if (ms > static_cast<double>(kMostKeepAliveMs)) return too_long(text);
  return static_cast<int64_t>(std::ceil(ms));
}

Result<int64_t> parse_keep_alive_json(std::string_view value) {
  const Result<Json> json = Json::parse(value);
  if (!json) return refuse(value);
  if (const std::string* text = json->as_string()) return parse_keep_alive(*text);
  if (!json->is_number()) return refuse(value);
  const double ms = json->number() * 1e3;
  if (ms < 0) return kKeepForever;
  if (ms > static_cast<double>(kMostKeepAliveMs)) return too_long(value);
  return static_cast<int64_t>(std::ceil(ms));
}

}  // namespace quire
