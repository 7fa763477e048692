// Filters that make or change numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

// "12", " -3 ", "1_000": what int(text, base) reads. False when it reads none.
bool read_whole(std::string_view text, int base, int64_t& out) {
  const std::string_view given = strip_space(text, {});
  std::string digits;
  for (size_t i = 0; i < given.size(); ++i) {
    const bool inside = i > 0 && i + 1 < given.size();
    const bool joins = inside && given[i] == '_' && given[i - 1] != '_' && given[i + 1] != '_';
    if (!joins) digits += given[i];
  }
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const char mark = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '\0';
  if (mark && digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == mark) digits.erase(0, 2);
  if (digits.empty() || digits[0] == '-') return false;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return false;
  if (negative) out = -out;
  return true;
}

bool read_real(std::string_view text, double& out) {
  std::string_view digits = strip_space(text, {});
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (parsed.ec == std::errc::result_out_of_range) {
    out = digits.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
    return parsed.ptr == digits.data() + digits.size();
  }
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
}

bool truncated(double v, int64_t& out) {
  if (!(std::fabs(v) < 9.2e18)) return false;
  out = static_cast<int64_t>(v);
  return true;
}

// int(default=0, base=10)
bool int_filter(const Call& call, Value& out) {
  if (call.self.is(Kind::undefined)) return call.in.fail_undefined(call.self);
  int64_t base = 10, v = 0;
  if (!int_or(call, 1, 10, base)) return false;
  if (base < 2 || base > 36) return call.in.fail("int: base must be between 2 and 36");
  double real = 0;
  bool ok = false;
  if (call.self.is_text()) {
    if (!call.in.scan(call.self.s->text.size())) return false;
    ok = read_whole(call.self.s->text, static_cast<int>(base), v) ||
         (read_real(call.self.s->text, real) && truncated(real, v));
  } else if (call.self.is_whole()) {
    v = call.self.whole();
    ok = true;
  } else if (call.self.is(Kind::real)) {
    ok = truncated(call.self.d, v);
  }
  out = ok ? make_int(v) : call.given(0) ? call[0] : make_int(int64_t{0});
  return true;
}

// float(default=0.0)
bool float_filter(const Call& call, Value& out) {
  if (call.self.is(Kind::undefined)) return call.in.fail_undefined(call.self);
  double v = 0;
  if (call.self.is_text() && !call.in.scan(call.self.s->text.size())) return false;
  const bool ok = call.self.is_number() || (call.self.is_text() && read_real(call.self.s->text, v));
  if (call.self.is_number()) v = call.self.number();
  out = ok ? make_real(v) : call.given(0) ? call[0] : make_real(0.0);
  return true;
}

bool abs_filter(const Call& call, Value& out) {
  out = call.self;
  if (call.self.is(Kind::real)) {
    out = make_real(std::fabs(call.self.d));
    return true;
  }
  if (call.self.is_whole() && call.self.whole() >= 0) {
    out = make_int(call.self.whole());
    return true;
  }
  return negate(call.in, call.self, out);
}

// The decimal that Python's round gives: exact digits, halves to even.
double round_decimal(double v, int64_t precision) {
  if (!std::isfinite(v) || precision > 300) return v;
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(v / unit) * unit;
  }
  const int places = static_cast<int>(precision);
  std::string digits(static_cast<size_t>(std::snprintf(nullptr, 0, "%.*f", places, v)), '\0');
  std::snprintf(digits.data(), digits.size() + 1, "%.*f", places, v);
  return std::strtod(digits.c_str(), nullptr);
}

// round(precision=0, method='common')
bool round_filter(const Call& call, Value& out) {
  if (call.self.is(Kind::undefined)) return call.in.fail_undefined(call.self);
  int64_t precision = 0;
  if (!int_or(call, 0, 0, precision)) return false;
  if (precision < -300 || precision > 300) return call.in.fail("round: precision must be between -300 and 300");
  std::string_view method = "common";
  if (call.given(1)) {
    const Str* name = nullptr;
    if (!want_text(call, call[1], "round: method", name)) return false;
    method = name->text;
  }
  if (!call.self.is_number()) return call.in.fail("round: the value must be a number");
  if (method == "common") {
    const bool whole = call.self.is_whole() && precision >= 0;
    out = whole ? make_int(call.self.whole()) : make_real(round_decimal(call.self.number(), precision));
    if (call.self.is_whole() && !whole) out = make_int(static_cast<int64_t>(out.d));
    return true;
  }
  if (method != "ceil" && method != "floor") return call.in.fail("round: method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = call.self.number() * unit;
  out = make_real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
  return true;
}

constexpr Builtin kFilters[] = {
    {"int", int_filter, 0, {"default", "base"}},
    {"float", float_filter, 0, {"default"}},
    {"abs", abs_filter},
    {"round", round_filter, 0, {"precision", "method"}},
};

}  // namespace

std::span<const Builtin> number_filters() { return kFilters; }

}  // namespace quire::jinja
